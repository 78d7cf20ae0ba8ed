/** The contents of /etc/passwd, /etc/group and the other small files every root file system needs. */
import { CODE_USER } from "./mount-points.ts";

export const HOSTS = "127.0.0.1\tlocalhost sandbox\n::1\tlocalhost ip6-localhost\n";
export const HOSTNAME = "sandbox\n";
/** The runner's address, in sandboxes with a network; in others nothing answers there. */
export const RESOLV_CONF = "nameserver 127.0.0.1\n";

export function newPasswd(shell: string): string {
  return withCodeUser(
    `root:x:0:0:root:/root:${shell}\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n`,
    shell,
  );
}

export function newGroup(): string {
  return withCodeGroup("root:x:0:\ntty:x:5:\nnogroup:x:65534:\n");
}

/** Adds the code user unless the file has a user with that id. */
export function withCodeUser(passwd: string, shell: string): string {
  const { uid, gid, home } = CODE_USER;
  return withLine(passwd, uid, (name) => `${name}:x:${uid}:${gid}:Sandbox:${home}:${shell}`);
}

/** Adds the code user's group unless the file has a group with that id. */
export function withCodeGroup(group: string): string {
  return withLine(group, CODE_USER.gid, (name) => `${name}:x:${CODE_USER.gid}:`);
}

function withLine(text: string, id: number, line: (name: string) => string): string {
  const rows = text.split("\n").map((row) => row.split(":"));
  if (rows.some((row) => row[2] === String(id))) return text;
  const taken = new Set(rows.map((row) => row[0]));
  let name: string = CODE_USER.name;
  while (taken.has(name)) name += "_";
  const separator = text === "" || text.endsWith("\n") ? "" : "\n";
  return `${text}${separator}${line(name)}\n`;
}
