// Package statedir owns the agent's state folder: 0700, every file 0600 and
// written durably, and one lock so that two agents never work on one folder.
package statedir
