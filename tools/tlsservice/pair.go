package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"sync/atomic"
)

// pair is the certificate in use, read from two files. Safe for concurrent use.
type pair struct {
	certFile, keyFile string
	current           atomic.Pointer[tls.Certificate]
}

// load reads both files and takes them into use if they belong together; it returns the leaf's
// serial number in hex. On an error the pair in use stays.
func (p *pair) load() (string, error) {
	fresh, err := tls.LoadX509KeyPair(p.certFile, p.keyFile)
	if err != nil {
		return "", fmt.Errorf("load pair: %w", err)
	}
	p.current.Store(&fresh)
	return fmt.Sprintf("%x", fresh.Leaf.SerialNumber), nil
}

// get is tls.Config.GetCertificate.
func (p *pair) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if c := p.current.Load(); c != nil {
		return c, nil
	}
	return nil, errors.New("no certificate yet")
}
