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
 * Applies when all its tests match. No two rules of one syscall that can both apply have different
 * actions, so their order does not matter; if none applies, the result is the profile's ENOSYS.
 * Each rule adds about 40 µs to a create, so refusals are listed only if their errno matters.
 */
export interface ArgumentRule {
  readonly syscall: string;
  readonly action: "allow" | ErrnoName;
  readonly tests: readonly ArgumentTest[];
}

/** The bits of an argument that the kernel declares as a 32-bit number; it ignores the rest. */
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
 * SECURITY: against new namespaces: threads and forks pass, a clone that requests a namespace does
 * not (CLONE_NEWTIME is not a flag of clone(2)). Guarded by seccomp.container.test.ts.
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
/** Families and netlink protocols known to the kernel are below 64; beyond, ENOSYS is sufficient. */
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
 * SECURITY: against rare kernel interfaces and reaching a network: AF_ALG, AF_PACKET, AF_VSOCK and
 * the dozens of rare families are kernel code that a sandbox does not need, and vsock leads out to
 * a hypervisor. Of netlink only ROUTE remains, which programs use to list interfaces. Guarded by
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
 * SECURITY: against rare kernel interfaces: `lo` only needs TCP and UDP. MPTCP, SCTP, UDP-Lite,
 * DCCP and L2TP are kernel code (some of it loaded on first use) with a history of vulnerabilities;
 * raw sockets forge packets, and there is no host to ping. Programs handle EPROTONOSUPPORT and fall
 * back to TCP. Guarded by seccomp.container.test.ts and tests/hostile/isolation.test.ts.
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
 * SECURITY: against rare kernel interfaces: socket pairs of another family (TIPC has them) would
 * bypass the rules for `socket`. No program needs one, so the default ENOSYS is sufficient. Guarded
 * by seccomp.container.test.ts.
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
 * SECURITY: against device access: a device node gives access to a driver; FIFOs, sockets and files
 * do not. Guarded by seccomp.container.test.ts.
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
 * SECURITY: against foreign system calls: other personalities switch the kernel to rare code paths
 * (or make all readable memory executable). What debuggers use stays allowed: querying, the
 * default, and no address randomization. Guarded by seccomp.container.test.ts.
 */
function personalityRules(): ArgumentRule[] {
  return [0, ADDR_NO_RANDOMIZE, ASK].map((value) => ({
    syscall: "personality",
    action: "allow",
    tests: [{ index: 0, mask: INT, value }],
  }));
}

/** All rules that check arguments. */
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
