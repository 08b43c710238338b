package mail

import (
	"context"
	"fmt"
	"log/slog"
	"net/mail"
	"os"
	"path/filepath"
)

// Folder is a Transport for servers without a mail server: each message becomes
// a file, readable by the owner alone. Its name and recipient are logged, its
// text, which may hold a code, is not.
type Folder struct {
	Path string // made when it is needed
	Log  *slog.Logger
}

// Send implements Transport. An attempt that is repeated replaces the file.
func (f *Folder) Send(ctx context.Context, e *Envelope) error {
	message, err := compose(e, &mail.Address{Name: "CertHarbor", Address: "certharbor@localhost.localdomain"})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(f.Path, 0o700); err != nil {
		return fmt.Errorf("make the outbox: %w", err)
	}
	name := fmt.Sprintf("%s-%d-%s.eml", e.CreatedAt.UTC().Format("20060102T150405Z"), e.ID, e.Kind)
	file, err := os.CreateTemp(f.Path, ".new-*") // 0600
	if err != nil {
		return fmt.Errorf("write to the outbox: %w", err)
	}
	defer os.Remove(file.Name()) //nolint:errcheck // gone after the rename
	if _, err = message.WriteTo(file); err == nil {
		err = file.Sync()
	}
	if closing := file.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(file.Name(), filepath.Join(f.Path, name))
	}
	if err != nil {
		return fmt.Errorf("write to the outbox: %w", err)
	}
	f.Log.InfoContext(ctx, "no mail server is configured: mail written to a file", "to", e.To, "kind", e.Kind, "file", filepath.Join(filepath.Base(f.Path), name))
	return nil
}
