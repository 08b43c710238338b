package devices

import (
	"context"
	"fmt"

	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
)

const maxAgentText = 200 // bytes of an agent's name or version

// Notify takes the events of an agent. "agent_version" is recorded on the device;
// of "install_result" what failed is an entry of the device's history. Other
// types are ignored.
func (s *Service) Notify(ctx context.Context, userID, deviceID int64, events []map[string]any) error {
	for _, event := range events {
		if event["type"] == "install_result" {
			if err := s.installed(ctx, userID, deviceID, event); err != nil {
				return err
			}
		}
		if event["type"] != "agent_version" {
			continue
		}
		agent, _ := event["agent"].(string)
		version, _ := event["version"].(string)
		if agent == "" || len(agent) > maxAgentText {
			return fault.Invalid("events.agent", "must be a string of 1 to %d bytes", maxAgentText)
		}
		if version == "" || len(version) > maxAgentText {
			return fault.Invalid("events.version", "must be a string of 1 to %d bytes", maxAgentText)
		}
		if err := s.recordAgent(ctx, userID, deviceID, agent, version); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) recordAgent(ctx context.Context, userID, deviceID int64, agent, version string) error {
	d, err := s.Get(ctx, s.DB.Reader(), userID, deviceID)
	if err != nil || (d.Agent == agent && d.AgentVersion == version) {
		return err
	}
	err = s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
		return New(tx).setAgent(ctx, setAgentParams{Agent: agent, AgentVersion: version, UpdatedAt: s.Now().UnixMilli(), ID: deviceID})
	})
	if err != nil {
		return fmt.Errorf("record agent version: %w", err)
	}
	return nil
}
