package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

func main() {
	// Children ask the kernel to die with the thread that started them (process.go), which must
	// therefore live as long as the program: the main thread does.
	runtime.LockOSThread()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Getenv("CI") == "true", os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// run goes through all steps; ci leaves nothing running and no files behind.
func run(ctx context.Context, args []string, ci bool, out io.Writer) (err error) {
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	bin := flags.String("bin", "bin", "folder with certharbor and certharbor-agent; the demo's own programs are in its folder demo")
	limit := flags.Duration("limit", 60*time.Second, "what the whole demo may take once everything is built")
	lifetime := flags.Duration("lifetime", 36*time.Second, "lifetime of the issued certificates")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("read flags: %w", err)
	}
	programs, err := filepath.Abs(*bin)
	if err != nil {
		return fmt.Errorf("find programs: %w", err)
	}
	folder, err := os.MkdirTemp("", "certharbor-demo-")
	if err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	d := &demo{bin: programs, folder: folder, lifetime: *lifetime, children: &children{folder: folder, dieWithUs: ci}}
	ctx, cancel := context.WithTimeout(ctx, *limit)
	defer cancel()

	if err := d.play(ctx, out); err != nil {
		d.children.stop()
		return errors.Join(err, fmt.Errorf("the logs are in %s", folder))
	}
	if ci {
		d.children.stop()
		if err := os.RemoveAll(folder); err != nil {
			return fmt.Errorf("clean up: %w", err)
		}
		return nil
	}
	d.farewell(out)
	return nil
}

// play runs the steps in order and prints a line for each, until one fails.
func (d *demo) play(ctx context.Context, out io.Writer) error {
	began := time.Now()
	_, _ = fmt.Fprintf(out, "%-4s %8s  %-44s %s\n", "step", "time", "what", "seen")
	for i, step := range d.steps() {
		start := time.Now()
		seen, err := step.run(ctx)
		took := fmt.Sprintf("%.2f s", time.Since(start).Seconds())
		if err != nil {
			_, _ = fmt.Fprintf(out, "%4d %8s  %-44s FAILED\n", i+1, took, step.what)
			return fmt.Errorf("step %d, %s: %w", i+1, step.what, err)
		}
		_, _ = fmt.Fprintf(out, "%4d %8s  %-44s %s\n", i+1, took, step.what, seen)
	}
	_, _ = fmt.Fprintf(out, "     %8s  all steps passed\n", fmt.Sprintf("%.2f s", time.Since(began).Seconds()))
	return nil
}

// farewell says where to look while everything is still up.
func (d *demo) farewell(out io.Writer) {
	_, _ = fmt.Fprintf(out, `
Everything is still running:
  CertHarbor   %[1]s   (health %[1]s/health, API documentation %[1]s/docs)
  sign in as   %[2]s   with the password %[3]s
  TLS service  https://%[4]s   (its certificate is renewed every %[5]s)
  files, logs  %[6]s
Stop it with:  kill %[7]s
`, d.api.base, email, d.password, d.tlsAddress, (d.lifetime * 2 / 3).Round(time.Second), d.folder, d.children.ids())
}
