/** The system calls that are allowed with some arguments and refused with others. */
import type { ErrnoName } from "./deny-table.ts";
import { patternsExcept } from "./masked-patterns.ts";

/** True when argument number `index`, under `mask`, is `value`. */
export interface ArgumentTest {
  readonly index: number;
  readonly mask: number;
  readonly value: number;
}

/**
 * Applies when all its tests hold. No two rules of one syscall that both can apply differ in their
 * action, so their order means nothing; where none applies, the answer is the profile's ENOSYS.
 * Each rule costs a create about 40 µs, so refusals are spelled out only where their errno matters.
 */
export interface ArgumentRule {
  readonly syscall: string;
  readonly action: "allow" | ErrnoName;
  readonly tests: readonly ArgumentTest[];
}

/** The bits of an argument that the kernel declares as a 32-bit number; it never looks at the rest. */
const INT = 0xffff_ffff;

const CLONE_NAMESPACES = {
  CLONE_NEWNS: 0x0002_0000,
  CLONE_NEWCGROUP: 0x0200_0000,
  CLONE_NEWUTS: 0x0400_0000,
  CLONE_NEWIPC: 0x0800_0000,
  CLONE_NEWUSER: 0x1000_0000,
  CLONE_NEWPID: 0x2000_0000,
  CLONE_NEWNET: 0x4000_0000,
} as const;

/**
 * SECURITY: against new namespaces: threads and forks pass, a clone that asks for any namespace does
 * not (CLONE_NEWTIME is no flag of clone(2)). Guarded by seccomp.container.test.ts.
 */
function cloneRules(): ArgumentRule[] {
  const flags = Object.values(CLONE_NAMESPACES);
  const all = flags.reduce((sum, flag) => sum | flag, 0);
  const rule = (action: ArgumentRule["action"], mask: number, value: number): ArgumentRule => ({
    syscall: "clone",
    action,
    tests: [{ index: 0, mask, value }],
  });
  return [rule("allow", all, 0), ...flags.map((flag) => rule("EPERM", flag, flag))];
}

const FAMILY = { UNIX: 1, INET: 2, INET6: 10, NETLINK: 16 } as const;
/** Matches INET and INET6, which differ in one bit, and no other family. */
const INTERNET = { index: 0, mask: 0xffff_fff7, value: FAMILY.INET } as const;
const NETLINK_ROUTE = 0;
/** Families and netlink protocols that the kernel knows are below 64; beyond, ENOSYS is answer enough. */
const KNOWN_SOCKETS = { high: 5, low: 0 } as const;

/** The bits of a socket's type without its flags. */
const SOCKET_TYPE = 0xf;
const TYPE = { STREAM: 1, DGRAM: 2, RAW: 3 } as const;
const PROTOCOL = {
  DEFAULT: 0,
  ICMP: 1,
  TCP: 6,
  UDP: 17,
  ICMPV6: 58,
  SCTP: 132,
  UDPLITE: 136,
  MPTCP: 262,
} as const;

const isFamily = (value: number): ArgumentTest => ({ index: 0, mask: INT, value });
const isType = (value: number): ArgumentTest => ({ index: 1, mask: SOCKET_TYPE, value });
const isProtocol = (value: number): ArgumentTest => ({ index: 2, mask: INT, value });

/**
 * SECURITY: against rare kernel interfaces and reaching a network: AF_ALG, AF_PACKET, AF_VSOCK and the
 * dozens of rare families are kernel code that a sandbox has no use for, and vsock leads out to a
 * hypervisor. Of netlink only ROUTE remains, by which programs list the interfaces. Guarded by
 * seccomp.container.test.ts.
 */
function socketRules(): ArgumentRule[] {
  const rule = (action: ArgumentRule["action"], ...tests: ArgumentTest[]): ArgumentRule => ({
    syscall: "socket",
    action,
    tests,
  });
  const otherProtocols = patternsExcept([NETLINK_ROUTE], KNOWN_SOCKETS);
  const otherFamilies = patternsExcept(Object.values(FAMILY), KNOWN_SOCKETS);
  return [
    rule("allow", isFamily(FAMILY.UNIX)),
    ...internetRules(),
    rule("allow", isFamily(FAMILY.NETLINK), isProtocol(NETLINK_ROUTE)),
    ...otherProtocols.map((other) =>
      rule("EAFNOSUPPORT", isFamily(FAMILY.NETLINK), { index: 2, ...other }),
    ),
    ...otherFamilies.map((other) => rule("EAFNOSUPPORT", { index: 0, ...other })),
  ];
}

/**
 * SECURITY: against rare kernel interfaces: TCP and UDP are what `lo` is for. MPTCP, SCTP, UDP-Lite,
 * DCCP and L2TP are kernel code (some of it loaded on first use) with a history of holes; raw sockets
 * forge packets, and there is nobody to ping. Programs know EPROTONOSUPPORT and fall back to TCP.
 * Guarded by seccomp.container.test.ts and tests/hostile/isolation.test.ts.
 */
function internetRules(): ArgumentRule[] {
  const rule = (action: ArgumentRule["action"], ...tests: ArgumentTest[]): ArgumentRule => ({
    syscall: "socket",
    action,
    tests: [INTERNET, ...tests],
  });
  const allowed = [
    [TYPE.STREAM, PROTOCOL.DEFAULT],
    [TYPE.STREAM, PROTOCOL.TCP],
    [TYPE.DGRAM, PROTOCOL.DEFAULT],
    [TYPE.DGRAM, PROTOCOL.UDP],
  ] as const;
  const refused = [
    [TYPE.STREAM, PROTOCOL.MPTCP],
    [TYPE.STREAM, PROTOCOL.SCTP],
    [TYPE.DGRAM, PROTOCOL.UDPLITE],
    [TYPE.DGRAM, PROTOCOL.ICMP],
    [TYPE.DGRAM, PROTOCOL.ICMPV6],
  ] as const;
  return [
    ...allowed.map(([type, protocol]) => rule("allow", isType(type), isProtocol(protocol))),
    ...refused.map(([type, protocol]) =>
      rule("EPROTONOSUPPORT", isType(type), isProtocol(protocol)),
    ),
    rule("EPERM", isType(TYPE.RAW)),
  ];
}

/**
 * SECURITY: against rare kernel interfaces: pairs of another family (TIPC has them) would be a way
 * around `socket`. No program asks for one, so the default ENOSYS is answer enough. Guarded by
 * seccomp.container.test.ts.
 */
function socketpairRules(): ArgumentRule[] {
  return [{ syscall: "socketpair", action: "allow", tests: [isFamily(FAMILY.UNIX)] }];
}

const TIOCSTI = 0x5412;
const TIOCLINUX = 0x541c;
const TIOCSETD = 0x5423;
/** The type and number of a request. Its upper half (direction and size) is zero in these, and no other request shares the lower. */
const IOCTL_NUMBER = { high: 15, low: 0 } as const;

/**
 * SECURITY: against attacks on PID 1: TIOCSTI types into a terminal that others may read from,
 * TIOCLINUX does so through a console's clipboard. Against rare kernel interfaces: TIOCSETD loads line disciplines, old
 * drivers of modems and radios. Guarded by seccomp.container.test.ts, with set upper bits too.
 */
function ioctlRules(): ArgumentRule[] {
  const refused = [TIOCSTI, TIOCLINUX, TIOCSETD];
  const rule = (action: ArgumentRule["action"], mask: number, value: number): ArgumentRule => ({
    syscall: "ioctl",
    action,
    tests: [{ index: 1, mask, value }],
  });
  return [
    ...refused.map((request) => rule("EPERM", 0xffff, request)),
    ...patternsExcept(refused, IOCTL_NUMBER).map((other) => rule("allow", other.mask, other.value)),
  ];
}

const S_IFMT = 0o170000;
const DEVICES = [0o020000 /* character */, 0o060000 /* block */];
const NODES = [
  0 /* regular, by default */, 0o100000 /* regular */, 0o010000 /* FIFO */, 0o140000 /* socket */,
];

/**
 * SECURITY: against device access: a device node is a door to a driver; FIFOs, sockets and files are
 * not. Guarded by seccomp.container.test.ts.
 */
function mknodRules(syscall: string, modeIndex: number): ArgumentRule[] {
  const rule = (action: ArgumentRule["action"], type: number): ArgumentRule => ({
    syscall,
    action,
    tests: [{ index: modeIndex, mask: S_IFMT, value: type }],
  });
  return [
    ...NODES.map((type) => rule("allow", type)),
    ...DEVICES.map((type) => rule("EPERM", type)),
  ];
}

const ADDR_NO_RANDOMIZE = 0x0004_0000;
const ASK = 0xffff_ffff;

/**
 * SECURITY: against foreign system calls: other personalities switch the kernel to rare code paths (or
 * make all readable memory executable). What debuggers use stays: to ask, the default, and no address
 * randomisation. Guarded by seccomp.container.test.ts.
 */
function personalityRules(): ArgumentRule[] {
  return [0, ADDR_NO_RANDOMIZE, ASK].map((value) => ({
    syscall: "personality",
    action: "allow",
    tests: [{ index: 0, mask: INT, value }],
  }));
}

/** All rules that look at arguments. */
export function argumentRules(): ArgumentRule[] {
  return [
    ...cloneRules(),
    ...socketRules(),
    ...socketpairRules(),
    ...ioctlRules(),
    ...mknodRules("mknod", 1),
    ...mknodRules("mknodat", 2),
    ...personalityRules(),
  ];
}
