// Package agent is the device agent: it logs a device in, keeps up with the
// server's update stream, and installs what the install-config names.
//
// One round fetches the install-config and the certificates that may have
// changed, hands them to package install, and reports the outcome. Run polls
// for signals and starts rounds; Once does a single one. A signal only names
// state to fetch again, and its cursor is stored after the round it caused:
// after a crash the signal comes again and finds nothing left to do.
//
// The state folder (package statedir) holds
//
//	identity.json      device id and X25519 key, made once
//	session.json       server, device and tokens; the name of a refresh under way
//	registration.json  a registration under way: server, user and code
//	sync.json          cursor, last install-config, last contact
//	items.json         what is installed and what failed (package install)
//	journal.json       an installation under way (package install)
//	lock               held by the process that may change all this
package agent
