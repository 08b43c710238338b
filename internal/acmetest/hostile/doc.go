// Package hostile is an ACME server for tests that misbehaves on command.
//
// Left alone it is a small certificate authority that accepts every challenge
// at once and issues from a real root, so that an order can be brought to any
// step. A test then says what a step answers instead:
//
//	ca := hostile.Start(t)
//	ca.Next(hostile.NewOrder, hostile.Busy(2), hostile.Garbage()) // the next two requests
//	ca.Always(hostile.Finalize, hostile.Hang())                   // all from now on
//	… ca.Requests(hostile.NewOrder), ca.Orders(), ca.Issued() …
//
// Unlike acmetest's Pebble it does not verify signatures. It does count nonces:
// one that it did not give, or that was used before, is refused.
package hostile
