package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "webhookreceiver:", err)
		os.Exit(1)
	}
}

// run receives until ctx ends. The secret comes from the environment rather than a flag, since
// flags are visible to every user of the machine.
func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) (err error) {
	flags := flag.NewFlagSet("webhookreceiver", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:0", "address to serve HTTP on")
	output := flags.String("output", "", "file to append deliveries to; empty: standard output")
	fail := flags.String("fail", "", "comma-separated failures, one per request: a status code, hang or close")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("read flags: %w", err)
	}
	secret := getenv("WEBHOOK_SECRET")
	if secret == "" {
		return errors.New("WEBHOOK_SECRET is empty")
	}
	failures, err := parseFailures(*fail)
	if err != nil {
		return fmt.Errorf("read -fail: %w", err)
	}
	sink := stdout
	if *output != "" {
		file, err := os.OpenFile(*output, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return fmt.Errorf("open output: %w", err)
		}
		defer func() { _ = file.Close() }()
		sink = file
	}

	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server := &http.Server{
		Handler:           &receiver{secret: []byte(secret), now: time.Now, out: sink, failures: failures},
		ReadHeaderTimeout: 5 * time.Second,
		ErrorLog:          log.New(io.Discard, "", 0),
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	_, _ = fmt.Fprintln(stderr, "listening", listener.Addr())
	select {
	case err := <-served:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
		return server.Close()
	}
}
