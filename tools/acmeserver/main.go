package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
)

func main() {
	if err := run(os.Stdin, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "acmeserver:", err)
		os.Exit(1)
	}
}

// run serves until stdin ends.
func run(stdin io.Reader, stdout, stderr io.Writer) error {
	lines := bufio.NewScanner(stdin)
	answers := json.NewEncoder(stdout)

	if !lines.Scan() {
		return fmt.Errorf("read options: no line on standard input: %w", io.ErrUnexpectedEOF)
	}
	var opts options
	if err := json.Unmarshal(lines.Bytes(), &opts); err != nil {
		return fmt.Errorf("read options: %w", err)
	}

	logger := log.New(stderr, "", log.LstdFlags|log.Lmicroseconds)
	names, dnsAddress, err := startDNS(logger)
	if err != nil {
		return fmt.Errorf("start DNS helper: %w", err)
	}
	defer names.Shutdown()
	started, err := startPebble(logger, opts, dnsAddress)
	if err != nil {
		return fmt.Errorf("start Pebble: %w", err)
	}
	if err := answers.Encode(started); err != nil {
		return fmt.Errorf("announce: %w", err)
	}

	for lines.Scan() {
		var answer struct {
			Error string `json:"error"`
		}
		if err := apply(names, lines.Bytes()); err != nil {
			answer.Error = err.Error()
		}
		if err := answers.Encode(answer); err != nil {
			return fmt.Errorf("answer command: %w", err)
		}
	}
	return lines.Err()
}
