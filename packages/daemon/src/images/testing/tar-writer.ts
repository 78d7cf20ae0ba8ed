/** Writes tar archives by hand, including invalid ones. */

export interface TarItem {
  readonly path: string;
  readonly type?: "0" | "1" | "2" | "3" | "4" | "5" | "6" | "S" | "x" | "L";
  readonly content?: string | Buffer;
  readonly linkTarget?: string;
  readonly mode?: number;
  readonly uid?: number;
  readonly gid?: number;
  readonly mtimeSeconds?: number;
  /** Written into the header instead of the content's size. */
  readonly claimedBytes?: number;
  /** Records of a POSIX extended header before the entry. */
  readonly pax?: Readonly<Record<string, string>>;
}

const END = Buffer.alloc(1024);

export function tarOf(items: readonly TarItem[], options: { readonly end?: boolean } = {}): Buffer {
  const parts = items.flatMap((item) => [
    ...(item.pax === undefined
      ? []
      : [entry({ path: "pax", type: "x", content: paxRecords(item.pax) })]),
    entry(item),
  ]);
  return Buffer.concat(options.end === false ? parts : [...parts, END]);
}

export function directory(path: string, more: Partial<TarItem> = {}): TarItem {
  return { path: `${path}/`, type: "5", mode: 0o755, ...more };
}

export function file(path: string, content: string | Buffer, more: Partial<TarItem> = {}): TarItem {
  return { path, type: "0", content, mode: 0o644, ...more };
}

export function symlink(path: string, linkTarget: string): TarItem {
  return { path, type: "2", linkTarget, mode: 0o777 };
}

export function hardLink(path: string, linkTarget: string): TarItem {
  return { path, type: "1", linkTarget };
}

function entry(item: TarItem): Buffer {
  const content = Buffer.from(item.content ?? "");
  const header = Buffer.alloc(512);
  header.write(item.path, 0, 100, "utf8");
  number(header, 100, 8, item.mode ?? 0o644);
  number(header, 108, 8, item.uid ?? 0);
  number(header, 116, 8, item.gid ?? 0);
  number(header, 124, 12, item.claimedBytes ?? content.length);
  number(header, 136, 12, item.mtimeSeconds ?? 1_700_000_000);
  header.write(item.type ?? "0", 156, "latin1");
  header.write(item.linkTarget ?? "", 157, 100, "utf8");
  header.write("ustar\u000000", 257, "latin1");
  number(header, 329, 8, 1);
  number(header, 337, 8, 3);
  header.fill(0x20, 148, 156);
  number(
    header,
    148,
    7,
    header.reduce((sum, byte) => sum + byte, 0),
  );
  return Buffer.concat([header, content, Buffer.alloc((512 - (content.length % 512)) % 512)]);
}

/** Octal digits, or the binary form for larger values. */
function number(header: Buffer, offset: number, length: number, value: number): void {
  const octal = value.toString(8);
  if (octal.length < length) {
    header.write(`${octal.padStart(length - 1, "0")}\0`, offset, "latin1");
    return;
  }
  header.writeBigUInt64BE(BigInt(value), offset + length - 8);
  header[offset] = (header[offset] ?? 0) | 0x80;
}

function paxRecords(records: Readonly<Record<string, string>>): Buffer {
  const lines = Object.entries(records).map(([key, value]) => {
    const rest = Buffer.byteLength(` ${key}=${value}\n`);
    let length = rest + 1;
    while (String(length).length + rest !== length) length += 1;
    return `${length} ${key}=${value}\n`;
  });
  return Buffer.from(lines.join(""));
}
