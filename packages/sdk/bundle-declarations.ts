/**
 * Bundles the declarations of several modules into one file. It supports only the forms that the
 * SDK uses and refuses all others, so a wrong file is never published.
 */
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import ts from "typescript";

interface Declaration {
  readonly file: string;
  /** With its comment and without `export`. */
  readonly text: string;
  /** Names of the types that it mentions. */
  readonly mentions: ReadonlySet<string>;
}

/** The exports of a directory's `index.d.ts`, with all declarations that they need. */
export function bundleDeclarations(directory: string): string {
  const declarations = new Map<string, Declaration>();
  const exports = new Map<string, string>();
  for (const file of globSync("**/*.d.ts", { cwd: directory }).toSorted()) {
    const text = readFileSync(join(directory, file), "utf8");
    const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
    for (const statement of source.statements) {
      if (ts.isImportDeclaration(statement)) refuseRenames(statement, file);
      else if (ts.isExportDeclaration(statement)) addExports(exports, statement, file);
      else addDeclaration(declarations, statement, file);
    }
  }
  const needed = reachable(declarations, [...exports.keys()]);
  const list = [...exports.values()].toSorted().join(", ");
  return [...needed.map(({ text }) => text), `export { ${list} };`, ""].join("\n\n");
}

/** Declarations are found by name, so a name must be the same everywhere. */
function refuseRenames(statement: ts.ImportDeclaration, file: string): void {
  const bindings = statement.importClause?.namedBindings;
  const names = bindings !== undefined && ts.isNamedImports(bindings) ? bindings.elements : [];
  if (names.some(({ propertyName }) => propertyName !== undefined)) {
    throw new Error(`${file}: an import under another name cannot be bundled`);
  }
}

function addExports(
  exports: Map<string, string>,
  statement: ts.ExportDeclaration,
  file: string,
): void {
  const clause = statement.exportClause;
  if (clause === undefined || !ts.isNamedExports(clause)) {
    throw new Error(`${file}: only exports by name can be bundled`);
  }
  for (const element of clause.elements) {
    if (element.propertyName !== undefined) {
      throw new Error(`${file}: an export under another name cannot be bundled`);
    }
    const isType = statement.isTypeOnly || element.isTypeOnly;
    exports.set(element.name.text, `${isType ? "type " : ""}${element.name.text}`);
  }
}

function addDeclaration(
  declarations: Map<string, Declaration>,
  statement: ts.Statement,
  file: string,
): void {
  const name = nameOf(statement);
  const other = declarations.get(name);
  if (other !== undefined) throw new Error(`${name} is declared in ${other.file} and in ${file}`);
  // The first comment of a file may be the file's own; the last one belongs to the declaration.
  const comment = ts.getJSDocCommentsAndTags(statement).findLast((doc) => ts.isJSDoc(doc));
  const text = statement.getText().replace(/^export /, "");
  declarations.set(name, {
    file,
    text: comment === undefined ? text : `${comment.getText()}\n${text}`,
    mentions: mentionsOf(statement),
  });
}

function nameOf(statement: ts.Statement): string {
  if (ts.isVariableStatement(statement)) {
    const [declaration] = statement.declarationList.declarations;
    if (declaration !== undefined && ts.isIdentifier(declaration.name))
      return declaration.name.text;
  }
  const { name } = statement as ts.DeclarationStatement;
  if (name === undefined || !ts.isIdentifier(name)) {
    throw new Error(`what has no name cannot be bundled: ${statement.getText()}`);
  }
  return name.text;
}

function mentionsOf(statement: ts.Statement): ReadonlySet<string> {
  const mentions = new Set<string>();
  const visit = (node: ts.Node): void => {
    if (ts.isTypeReferenceNode(node)) mentions.add(node.typeName.getText());
    if (ts.isExpressionWithTypeArguments(node)) mentions.add(node.expression.getText());
    if (ts.isTypeQueryNode(node)) mentions.add(node.exprName.getText());
    if (ts.isImportTypeNode(node)) throw new Error(`cannot be bundled: ${node.getText()}`);
    ts.forEachChild(node, visit);
  };
  visit(statement);
  return mentions;
}

/** Names that are not declared here belong to the language or the platform. */
function reachable(
  declarations: ReadonlyMap<string, Declaration>,
  names: readonly string[],
): readonly Declaration[] {
  const found = new Set<Declaration>();
  const follow = (name: string): void => {
    const declaration = declarations.get(name);
    if (declaration === undefined || found.has(declaration)) return;
    found.add(declaration);
    declaration.mentions.forEach(follow);
  };
  for (const name of names) {
    if (!declarations.has(name)) throw new Error(`${name} is exported and declared nowhere`);
    follow(name);
  }
  return [...found];
}
