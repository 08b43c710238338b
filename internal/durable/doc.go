// Package durable writes files so that after a crash or a power cut a reader
// finds either the old content or the new one, whole, and so that a success
// that was reported stays true: data and folder are synced before it returns.
package durable
