package seal

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxKeyFile bounds what is read as a key file, in bytes.
const maxKeyFile = 64 << 10

const keyFileHead = "# CertHarbor master keys: the first one seals, all of them open.\n" +
	"# Without this file every stored secret is lost; whoever has it can read them all.\n"

// Load reads the master keys from a file and makes the file, with one fresh key
// and mode 0600, when there is none. Processes that start together all get the
// same key. See [Read] for what is refused.
func Load(path string) (*Keyring, error) {
	ring, err := Read(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return ring, err
	}
	if err := create(path); err != nil {
		return nil, fmt.Errorf("make master key file: %w", err)
	}
	return Read(path)
}

// Read reads the master keys from an existing file: one key a line, `id:key`,
// the key in base64 or hexadecimal; see [Parse]. A file that group or others
// can read or write is refused, and so is anything but a regular file. A
// missing file gives an error that wraps [fs.ErrNotExist].
func Read(path string) (*Keyring, error) {
	file, err := os.Open(path) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, fmt.Errorf("read master key file: %w", err)
	}
	defer file.Close() //nolint:errcheck // nothing was written
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("read master key file: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("master key file %s is not a regular file", path)
	}
	if open := info.Mode().Perm() & 0o077; open != 0 {
		return nil, fmt.Errorf("master key file %s has mode %04o, so others can reach it; run: chmod 600 %s",
			path, info.Mode().Perm(), path)
	}
	text, err := io.ReadAll(io.LimitReader(file, maxKeyFile+1))
	if err != nil {
		return nil, fmt.Errorf("read master key file: %w", err)
	}
	defer clear(text)
	if len(text) > maxKeyFile {
		return nil, fmt.Errorf("master key file %s is too large", path)
	}
	ring, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("master key file %s: %w", path, err)
	}
	return ring, nil
}

// Parse reads master keys from text, as it stands in a key file or in an
// environment variable: keys separated by line ends or commas, each 32 bytes in
// base64 or hexadecimal, with or without its id and a colon before it. Empty
// lines and lines that start with # are skipped. An id that does not belong to
// its key is an error: the text is damaged. Errors never quote the text.
func Parse(text []byte) (*Keyring, error) {
	var keys [][]byte
	defer func() {
		for _, key := range keys {
			clear(key)
		}
	}()
	for n, line := range bytes.Split(text, []byte("\n")) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		for entry := range bytes.SplitSeq(line, []byte(",")) {
			key, err := parseKey(string(bytes.TrimSpace(entry)))
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", n+1, err)
			}
			keys = append(keys, key)
		}
	}
	return New(keys...)
}

func parseKey(entry string) ([]byte, error) {
	id, text, named := strings.Cut(entry, ":")
	if !named {
		text = entry
	}
	var key []byte
	var err error
	switch len(text) {
	case hex.EncodedLen(KeySize):
		key, err = hex.DecodeString(text)
	case base64.StdEncoding.EncodedLen(KeySize):
		key, err = base64.StdEncoding.Strict().DecodeString(text)
	default:
		err = errors.New("wrong length")
	}
	if err != nil || len(key) != KeySize {
		return nil, errors.New("not a key of 32 bytes in base64 (44 characters) or hexadecimal (64)")
	}
	derived := idOf(key)
	if named && !strings.EqualFold(id, hex.EncodeToString(derived[:])) {
		return nil, errors.New("the key id does not belong to the key: one of them was altered")
	}
	return key, nil
}

// formatKey is the line of one key in a key file.
func formatKey(key []byte) string {
	id := idOf(key)
	return hex.EncodeToString(id[:]) + ":" + base64.StdEncoding.EncodeToString(key) + "\n"
}

// create writes a key file that appears whole or not at all: the text goes to a
// temporary file first, and a link gives it its name unless another process was
// faster, whose file then stays. An early crash leaves no empty key file behind.
func create(path string) error {
	key := NewDataKey()
	defer clear(key)
	temp := path + "." + rand.Text() + ".tmp"
	file, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the operator names the file
	if err != nil {
		return err
	}
	defer os.Remove(temp) //nolint:errcheck // a leftover has mode 0600 and stands beside its equal
	_, err = file.WriteString(keyFileHead + formatKey(key))
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Link(temp, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

// syncFolder makes a new name durable: a key that seals data must not vanish
// with a power failure.
func syncFolder(path string) error {
	folder, err := os.Open(path) //nolint:gosec // the operator names the file
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
