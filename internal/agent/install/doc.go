// Package install brings a device's files and services to what its
// install-config asks for (wire.md 7.2), in a way that survives a kill at any
// point.
//
// Items that belong together form a group: an exec and the items it depends on
// (or, without depends_on, all copies listed before it), and copies that put
// the key and the certificate of one object into different items. A group is
// one transaction:
//
//	staging    every new file is written beside its target, synced, and the
//	           present file is kept under a second name; nothing has changed yet
//	committing the items are taken in order: files are renamed into place,
//	           commands run, handshakes checked
//	restoring  a step failed: the former files are renamed back and the
//	           commands that had run are run again
//	finishing  former files become <name>.previous, the outcome is recorded
//
// The phase and every name stand in journal.json in the state folder before
// anything is done. A start after a kill drops what was staged, or goes on with
// committing, restoring or finishing: it ends with the new files or the former
// ones, never a mix, and with the command run after the last change.
//
// Targets lie in folders of others, too: package folder opens them, and all that
// a transaction does to a target are calls on the descriptor of its folder.
//
// A command runs only when one of its files changed, its own text changed, or
// its last run did not succeed. What failed is remembered and tried again,
// later and later, until it works or is not asked for any more.
package install
