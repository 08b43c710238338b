package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"strconv"
	"time"

	"github.com/letsencrypt/challtestsrv"
)

// command changes what the DNS helper answers.
type command struct {
	// Op is set-a, clear-a, add-txt, clear-txt, fail, heal, set-default or set-caa.
	Op string `json:"op"`
	// Host is the name it is about; not used by set-default.
	Host string `json:"host"`
	// Values are IPv4 addresses, TXT values or, for set-caa, issuer domains.
	Values []string `json:"values"`
}

// apply carries out one command line.
func apply(names *challtestsrv.ChallSrv, line []byte) error {
	var c command
	if err := json.Unmarshal(line, &c); err != nil {
		return fmt.Errorf("read command: %w", err)
	}
	switch c.Op {
	case "set-a":
		names.DeleteDNSARecord(c.Host)
		names.AddDNSARecord(c.Host, c.Values)
	case "clear-a":
		names.DeleteDNSARecord(c.Host)
	case "add-txt":
		for _, v := range c.Values {
			names.AddDNSTXTRecord(c.Host, v)
		}
	case "clear-txt":
		names.DeleteDNSTXTRecord(c.Host)
	case "set-caa":
		names.DeleteDNSCAARecord(c.Host)
		var policies []challtestsrv.CAAPolicy
		for _, v := range c.Values {
			policies = append(policies, challtestsrv.CAAPolicy{Tag: "issue", Value: v})
		}
		names.AddDNSCAARecord(c.Host, policies)
	case "fail":
		names.AddDNSServFailRecord(c.Host)
	case "heal":
		names.DeleteDNSServFailRecord(c.Host)
	case "set-default":
		if len(c.Values) != 1 {
			return errors.New("set-default takes exactly one address")
		}
		names.SetDefaultDNSIPv4(c.Values[0])
	default:
		return fmt.Errorf("unknown op %q", c.Op)
	}
	return nil
}

// startDNS runs the DNS helper on a free port of 127.0.0.1 and returns its address. Every name
// resolves to 127.0.0.1 until a command says otherwise; there is no IPv6.
//
// challtestsrv takes an address, not a listener, so a port may be lost between choosing and
// binding it: startDNS looks whether it answers and otherwise tries another.
func startDNS(logger *log.Logger) (*challtestsrv.ChallSrv, string, error) {
	for range 10 {
		address, err := freeAddress()
		if err != nil {
			return nil, "", err
		}
		names, err := challtestsrv.New(challtestsrv.Config{Log: logger, DNSAddrs: []string{address}})
		if err != nil {
			return nil, "", fmt.Errorf("create: %w", err)
		}
		names.SetDefaultDNSIPv6("")
		marker := "probe-" + strconv.FormatInt(time.Now().UnixNano(), 36) + ".acmeserver.test"
		names.AddDNSARecord(marker, []string{"192.0.2.53"})
		names.Run()
		if answers(address, marker, "192.0.2.53") {
			return names, address, nil
		}
		names.Shutdown()
	}
	return nil, "", errors.New("no free port for TCP and UDP")
}

// freeAddress finds a port of 127.0.0.1 that is free for TCP and UDP.
func freeAddress() (string, error) {
	for range 20 {
		tcp, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", fmt.Errorf("listen: %w", err)
		}
		address := tcp.Addr().String()
		udp, udpErr := net.ListenPacket("udp", address)
		if err := tcp.Close(); err != nil {
			return "", fmt.Errorf("close: %w", err)
		}
		if udpErr == nil {
			return address, udp.Close()
		}
	}
	return "", errors.New("no port free for both TCP and UDP")
}
