import { describe, expect, it } from "vitest";
import { assemble } from "./assemble.ts";
import { processHost } from "./host.ts";
import { separateCommand } from "./separate-command.ts";

const { program } = assemble(processHost());
const separated = (line: string): string => separateCommand(program, line.split(" ")).join(" ");

describe("separateCommand()", () => {
  it.each([
    ["run ls -la", "run -- ls -la"],
    ["--json run ls -la", "--json run -- ls -la"],
    ["--url http://a run ls", "--url http://a run -- ls"],
    ["--url=http://a run ls", "--url=http://a run -- ls"],
    [
      "run --image python -e A=b --env=C=d python3 -c 1",
      "run --image python -e A=b --env=C=d -- python3 -c 1",
    ],
    ["run -eA=b -i cat -n", "run -eA=b -i -- cat -n"],
    ["run -ie A=b cat -n", "run -ie A=b -- cat -n"],
    ["run --network full curl -s x", "run --network full -- curl -s x"],
    ["run --network --merge curl -s", "run --network --merge -- curl -s"],
    ["exec ses_1 ls -la", "exec ses_1 -- ls -la"],
    ["exec --timeout 5s ses_1 -d ls -- -la", "exec --timeout 5s ses_1 -d -- ls -- -la"],
  ])("makes of `%s` `%s`", (given, wanted) => {
    expect(separated(given)).toBe(wanted);
  });

  it.each([
    "run -- ls -la",
    "exec ses_1 -- ls",
    "exec ses_1",
    "run --help",
    "ls -a",
    "agent run demo --dir x",
    "help run",
    "",
  ])("leaves `%s` as it is", (given) => {
    expect(separated(given)).toBe(given);
  });
});
