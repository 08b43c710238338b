package dbtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"os/user"

	"certharbor.dev/certharbor/internal/sqldb"
)

var (
	serverFolder = sync.OnceValues(startServer)
	databases    atomic.Int64
	lifeline     io.WriteCloser //nolint:unused // the server's input; held so that it is not collected
)

// PostgresConfig makes a migrated PostgreSQL database on the private server.
func PostgresConfig(t testing.TB) sqldb.Config {
	t.Helper()
	folder, err := serverFolder()
	if err != nil {
		t.Fatalf("PostgreSQL for tests: %v", err)
	}
	name := fmt.Sprintf("t%d", databases.Add(1))
	if err := execute(folder, "CREATE DATABASE "+name+" TEMPLATE template_certharbor"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := execute(folder, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Log(err)
		}
	})
	return sqldb.Config{URL: address(folder, name)}
}

func address(folder, database string) string {
	return "postgres://postgres@/" + database + "?host=" + folder + "&port=5432&sslmode=disable"
}

var admin sync.Mutex // CREATE DATABASE locks its template

func execute(folder, statement string) error {
	admin.Lock()
	defer admin.Unlock()
	db, err := sql.Open("pgx", address(folder, "postgres"))
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(context.Background(), statement); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}

// startServer starts a server that listens on a socket in its folder alone.
func startServer() (string, error) {
	bin, err := binaries()
	if err != nil {
		return "", err
	}
	folder, err := os.MkdirTemp("", "chpg")
	if err != nil {
		return "", err
	}
	credential, err := unprivileged(folder)
	if err != nil {
		return "", err
	}
	initdb := exec.Command(filepath.Join(bin, "initdb"), "-D", filepath.Join(folder, "data"), "-U", "postgres", "-A", "trust", "-N", "--no-instructions", "-E", "UTF8", "--locale=C")
	initdb.Dir, initdb.SysProcAttr = folder, &syscall.SysProcAttr{Credential: credential}
	if out, err := initdb.CombinedOutput(); err != nil {
		return "", fmt.Errorf("initdb: %w: %s", err, out)
	}
	// The shell ends the server and removes the folder when its input closes,
	// which happens when this process ends, also by a signal.
	script := `"$1/postgres" -D "$2/data" -k "$2" -c listen_addresses= -c fsync=off -c synchronous_commit=off -c full_page_writes=off -c max_connections=300 -c shared_buffers=64MB >"$2/log" 2>&1 & cat >/dev/null; kill -QUIT $!; wait; rm -rf "$2"`
	server := exec.Command("/bin/sh", "-c", script, "sh", bin, folder)
	server.Dir = folder
	server.SysProcAttr = &syscall.SysProcAttr{Credential: credential, Setpgid: true}
	if lifeline, err = server.StdinPipe(); err != nil {
		return "", err
	}
	if err := server.Start(); err != nil {
		return "", err
	}
	if err := waitReady(folder); err != nil {
		return "", err
	}
	if err := execute(folder, "CREATE DATABASE template_certharbor"); err != nil {
		return "", err
	}
	return folder, prepare(sqldb.Config{URL: address(folder, "template_certharbor")})
}

func waitReady(folder string) error {
	deadline := time.Now().Add(2 * time.Minute)
	for {
		err := execute(folder, "SELECT 1")
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			log, _ := os.ReadFile(filepath.Join(folder, "log"))
			return fmt.Errorf("server did not start: %w: %s", err, log)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// unprivileged lets root run the server as user postgres, which it insists on.
func unprivileged(folder string) (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	account, err := user.Lookup("postgres")
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(account.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(account.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, os.Chown(folder, int(uid), int(gid))
}

// binaries finds the folder of the installed server's programs.
func binaries() (string, error) {
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		if bin := strings.TrimSpace(string(out)); exists(filepath.Join(bin, "initdb")) {
			return bin, nil
		}
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return "", errors.New("no server installed; install the package postgresql (make test does it when run as root)")
	}
	return filepath.Dir(found[len(found)-1]), nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
