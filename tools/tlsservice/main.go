package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	err := run(ctx, os.Args[1:], hangup, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "tlsservice:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends and reads the pair again for every value from reload.
func run(ctx context.Context, args []string, reload <-chan os.Signal, out io.Writer) error {
	flags := flag.NewFlagSet("tlsservice", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:0", "address to serve HTTPS on")
	certFile := flags.String("cert", "", "PEM file with the certificate and its issuers")
	keyFile := flags.String("key", "", "PEM file with the private key")
	pidFile := flags.String("pid-file", "", "file to write the process id to, for kill -HUP")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("read flags: %w", err)
	}
	if *certFile == "" || *keyFile == "" {
		return errors.New("-cert and -key are required")
	}

	current := &pair{certFile: *certFile, keyFile: *keyFile}
	report(out, current)
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	if *pidFile != "" {
		if err := os.WriteFile(*pidFile, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600); err != nil {
			return fmt.Errorf("write process id: %w", errors.Join(err, listener.Close()))
		}
	}
	server := &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello\n") }),
		TLSConfig:         &tls.Config{GetCertificate: current.get, MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: 5 * time.Second,
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	served := make(chan error, 1)
	go func() { served <- server.ServeTLS(listener, "", "") }()
	_, _ = fmt.Fprintln(out, "listening", listener.Addr())

	for {
		select {
		case <-reload:
			report(out, current)
		case err := <-served:
			return fmt.Errorf("serve: %w", err)
		case <-ctx.Done():
			return server.Close()
		}
	}
}

// report reads the pair and says what came of it.
func report(out io.Writer, current *pair) {
	serial, err := current.load()
	if err != nil {
		_, _ = fmt.Fprintln(out, "refused:", err)
		return
	}
	_, _ = fmt.Fprintln(out, "serving", serial)
}
