// Package folder opens folders in such a way that no other user of the machine
// decides where that leads, and works on their entries by descriptor.
//
// Open goes from the root down, one name at a time, and never lets the kernel
// follow a link. On the way it asks whose each folder is and who can write it:
//
//   - Folders of root and of the agent's own user that no other can write
//     are trusted. A link there that root or that user owns is followed.
//   - The first folder of another user ends the trust: from there on everything
//     is done with the rights of that user (Linux: the file system identity of a
//     thread of its own), so nothing of root can be read, changed or removed
//     through it. The last folder must be that user's too. No link is followed.
//   - A folder that several users can write is refused. One with the sticky bit,
//     such as /tmp, may be passed when root or the agent's user owns the folder
//     below, which no other user can replace then.
//
// What a Folder does afterwards it does to entries of exactly the folder that
// was looked at, wherever that has been moved: no name is resolved again. A
// whole path given to openat2 (RESOLVE_NO_SYMLINKS) would not do, because it
// does not say whose the folders between are.
package folder
