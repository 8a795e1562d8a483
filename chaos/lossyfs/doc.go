// Package lossyfs is a file system on which what was written is durable only once it was synced: at PowerLoss some of
// the rest is gone, by chance and by a seed. It can also fail, slow down, hang and fill. It needs Linux, root and
// /dev/fuse.
//
// Killing a process loses nothing that it wrote, because the kernel has it; so a service that forgets an fsync passes
// every test that only kills. And a real machine cannot be made to lose its power a thousand times a night.
//
// # What survives
//
// Processes see every write at once: it goes to a file of a backing folder. Beside it stands what is durable: for each
// page of 4 KiB its content at the last sync, the file's size then, and a journal of the names that have changed since.
//
//   - fsync and fdatasync of a file, through whatever descriptor, make its bytes and its size durable, and the steps
//     by which it got its name.
//   - fsync of a folder makes the names in it durable: creations, renames (whole, also between folders), removals.
//   - What is durable never changes by a power loss, but by a newer write to the same page.
//   - Of other pages each has got to the disk or not, or is torn: some of its sectors of 512 bytes are new and some are
//     old. A page that was written several times may be one of the states between. Sectors are never torn.
//   - A file that has grown is as long as it was, as it became, or as some of its pages. One that was cut is cut, or is
//     as it was before, with all that lay behind the cut.
//   - Of other names each step has happened or not, but none without those that it rests on.
//   - After an fsync that failed, what it could not write is taken for written, as on Linux: it is still read, no later
//     fsync tries again, and a power loss drops it. Only writing it again helps.
//
// This is stricter than ext4, whose journal commits all steps in their order with the next fsync of anything. It is not
// as strict as POSIX, which promises no name without an fsync of its folder; no journaling file system is.
//
// # How it is mounted
//
// The server runs in the process that mounts, which therefore must not map a file of it into memory: a page fault is
// no system call, and a thread in one cannot stop for the garbage collector, which the server's threads may be waiting
// for. Files may be opened, read and listed here. Whoever maps files (bbolt does) is a process of its own.
//
// The device is opened close-on-exec and mounted here rather than by go-fuse, which leaves it open for children: one of
// them, stuck in a call that nobody answers any more, would keep the dead mount, and itself, for ever. When the process
// is killed, the kernel ends the connection, calls fail, and the mountpoint is swept away by the next Mount on the
// machine. PowerLoss ends the connection in the same way, also where other mount namespaces hold a copy of the mount,
// and mounts anew, so that nothing comes back from the kernel's cache.
//
// No fsync reaches the real disk, since only processes die here. On two cores, beside much else, that makes 15 800
// writes of 4 KiB a second, each followed by fdatasync; a cluster of three nodes, all on that machine, took 3000 to
// 3400 schedules a second from 64 callers with these disks and 2600 to 3600 without.
//
// # What it leaves to others
//
// When to strike (faults), and what must hold then (check). Hard and symbolic links, devices, extended attributes and
// writing through shared mappings are refused or not supported: no node uses them. Times and permissions are no part of
// what can be lost.
//
// # Why not otherwise
//
// Not LazyFS, the FUSE file system with which other projects simulate a loss of power: a fault of it drops the whole
// cache, or cuts a write that the configuration counts out. Here a seed draws for each page and sector whether it
// survives, which finds code that rests on the order of two writes. LazyFS passes changes of names straight on, so
// that a missing fsync of a folder shows nowhere, and it neither slows down nor hangs nor runs full. It is C++ on
// libfuse, which every machine would have to build; this is a Go package, which tests use like any other.
//
// Not a block device under a real file system (dm-log-writes, dm-flakey): it would test one file system's reading of
// the rules where this tests the rules, and those targets are missing in many kernels. Not an LD_PRELOAD: a Go binary
// calls the kernel directly. Not a virtual machine per node: a power loss would take seconds.
package lossyfs
