package app

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// drainTime is how long SIGTERM lets requests and jobs finish.
const drainTime = 30 * time.Second

// Serve runs the server until ctx is done or a SIGINT or SIGTERM arrives, then
// drains for at most 30 s; a second signal stops at once.
func Serve(ctx context.Context, c Config, version string, environ []string, stdout, stderr io.Writer) error {
	if err := c.Check(); err != nil {
		return fmt.Errorf("settings:\n%w", err)
	}
	log := newLogger(c, stderr)
	captureLibraryLog(log)
	for _, warning := range c.Warnings() {
		log.Warn(warning)
	}
	if err := prepareFolder(c.Data); err != nil {
		return err
	}
	l, err := lockForServing(c.Data)
	if err != nil {
		return err
	}
	defer l.release()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)

	a, err := New(ctx, c, Options{Version: version, Log: log})
	if err != nil {
		return err
	}
	defer a.Close()
	link, err := a.setupLink(ctx)
	if err != nil {
		return err
	}
	servers, err := a.listen()
	if err != nil {
		return err
	}
	if err := a.Start(ctx); err != nil {
		return err
	}
	limitMemory(environ, c.MaxConnections)
	trimming, stopTrimming := context.WithCancel(ctx)
	defer stopTrimming()
	go trimMemory(trimming)
	failed := make(chan error, len(servers))
	for _, s := range servers {
		go func() { failed <- s.serve() }()
	}
	log.Info("serving", "listen", servers[0].listener.Addr().String(), "base_url", c.PublicURL(), "database", string(a.db.Dialect()), "version", version)
	fmt.Fprintf(stdout, "CertHarbor %s serves %s\n", version, c.PublicURL())
	if link != "" {
		fmt.Fprintf(stdout, "There is no administrator yet. Make the first one, once, within 24 hours: %s\n", link)
	}

	var cause error
	select {
	case <-ctx.Done():
	case <-signals:
	case cause = <-failed:
	case <-a.db.Broken():
		// Whoever waits is told so; what runs in the background can save nothing any more.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		shutdown(ctx, a, servers)
		return errors.New("the disk failed: a write could not be made durable. Nothing was acknowledged after it. Check the disk, then start again")
	}
	return errors.Join(cause, drain(ctx, a, servers, signals, log))
}

func drain(ctx context.Context, a *App, servers []*server, signals <-chan os.Signal, log *slog.Logger) error {
	log.Info("stopping", "drain_seconds", int(drainTime.Seconds()))
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	go func() {
		select {
		case <-signals:
			cancel()
		case <-ctx.Done():
		}
	}()
	shutdown(ctx, a, servers)
	return a.Stop(ctx)
}

// shutdown answers what is under way until ctx is done.
func shutdown(ctx context.Context, a *App, servers []*server) {
	a.Release() // long polls answer now
	var group sync.WaitGroup
	for _, s := range servers {
		group.Go(func() {
			if err := s.http.Shutdown(ctx); err != nil {
				_ = s.http.Close()
			}
		})
	}
	group.Wait()
}

type server struct {
	listener net.Listener
	http     *http.Server
}

func (s *server) serve() error {
	if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", s.listener.Addr(), err)
	}
	return nil
}

// listen opens every configured address before anything is served.
func (a *App) listen() ([]*server, error) {
	var servers []*server
	all := newConnections(cmp.Or(a.config.MaxConnections, defaultConnections), strangersConnections)
	trusted, err := prefixes(a.config.TrustedProxies)
	if err != nil {
		return nil, fmt.Errorf("trusted-proxies: %w", err)
	}
	all.proxies = trusted
	open := func(address string, h http.Handler, config *tls.Config) error {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return fmt.Errorf("listen on %s: %w", address, err)
		}
		l = bounded{l, all}
		if config != nil {
			l = tls.NewListener(l, config)
		}
		servers = append(servers, &server{listener: l, http: httpServer(h, a.log, all)})
		return nil
	}
	err = open(a.config.Listen, a, nil)
	if err == nil && a.config.TLSListen != "" {
		var config *tls.Config
		if config, err = serverTLS(a.config); err == nil {
			err = open(a.config.TLSListen, a, config)
		}
	}
	if err == nil && a.config.HTTP01Listen != "" {
		err = open(a.config.HTTP01Listen, a.challenges, nil)
	}
	if err != nil {
		for _, s := range servers {
			_ = s.listener.Close()
		}
		return nil, err
	}
	return servers, nil
}

func httpServer(h http.Handler, log *slog.Logger, all *connections) *http.Server {
	return &http.Server{
		Handler:           oneAnswer(h),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute,
		WriteTimeout:      2 * time.Minute, // long polls take up to 30 s
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          errorLog(log),
		ConnState:         all.state,
		ConnContext:       all.context,
	}
}

func newLogger(c Config, w io.Writer) *slog.Logger {
	var level slog.LevelVar
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		level.Set(slog.LevelInfo)
	}
	options := &slog.HandlerOptions{Level: &level}
	if c.LogFormat == "text" {
		return slog.New(slog.NewTextHandler(w, options))
	}
	return slog.New(slog.NewJSONHandler(w, options))
}
