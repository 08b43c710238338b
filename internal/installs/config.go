package installs

// Config is the install configuration of a device as it is served (wire.md
// 7.2). Times are Unix seconds, and 0 while there is no configuration.
type Config struct {
	ID           int64   `json:"id"`
	UserDeviceID int64   `json:"user_device_id"`
	Version      int64   `json:"version"`
	Installs     []Item  `json:"installs" nullable:"false"`
	InstallsHash string  `json:"installs_hash"`
	Script       *string `json:"after_update_script"`
	UpdatedBy    string  `json:"updated_by"`
	CreatedAt    int64   `json:"created_at" doc:"Unix seconds."`
	UpdatedAt    int64   `json:"updated_at" doc:"Unix seconds."`
}

// History is one version in the list of versions (decisions.md 8.5).
type History struct {
	Version      int64  `json:"version"`
	ChangeNote   string `json:"change_note"`
	UpdatedBy    string `json:"updated_by"`
	CreatedAt    int64  `json:"created_at" doc:"Unix seconds."`
	InstallsHash string `json:"installs_hash"`
}

// Version is one version with its content.
type Version struct {
	History

	Installs []Item  `json:"installs" nullable:"false"`
	Script   *string `json:"after_update_script"`
}

// Update is what PUT writes. Items are not checked yet.
type Update struct {
	Installs   []Item
	Script     Script
	ChangeNote string
}

// Patched is the answer to install-config-update. It leaves out the content,
// which the right to change does not include.
type Patched struct {
	ConfigID     int64  `json:"config_id"`
	Version      int64  `json:"version"`
	InstallsHash string `json:"installs_hash"`
}
