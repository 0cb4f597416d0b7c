package controlplane

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/muster-dev/muster/internal/controlplane/pki"
)

// settings are the choices that must stay the same from one start to the next.
type settings struct {
	Port        int    `json:"port,omitempty"`
	ServiceCIDR string `json:"serviceCIDR,omitempty"`
	// Shared is set while the store may have the rules of a shared machine.
	Shared bool `json:"shared,omitempty"`
}

func settingsFile(dataDir string) string { return filepath.Join(dataDir, "control-plane.json") }

func loadSettings(dataDir string) (settings, error) {
	var s settings
	path := settingsFile(dataDir)
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, fmt.Errorf("reading the last start's choices: %w", err)
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("reading %s: %w: correct it, or remove it to choose anew", path, err)
	}
	return s, nil
}

func (s settings) save(dataDir string) error {
	data, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encoding this start's choices: %w", err)
	}
	return pki.WriteFile(settingsFile(dataDir), append(data, '\n'))
}

// chooseRange settles the range of ClusterIPs. A range once used is kept, since
// Services have addresses from it; note says so where that has become a
// problem, or where it is not the usual one. claim claims a range for this control
// plane, and returns false if another one has the claim.
func (s settings) chooseRange(asked string, used []netip.Prefix, claim func(string) bool) (chosen, note string, err error) {
	switch {
	case asked != "" && s.ServiceCIDR != "" && asked != s.ServiceCIDR:
		return "", "", fmt.Errorf("service range %s was asked for, but this data folder's Services have addresses from %s: keep that range, or use another data folder", asked, s.ServiceCIDR)
	case asked != "":
		chosen = asked
	case s.ServiceCIDR != "":
		chosen = s.ServiceCIDR
	default:
		chosen, err = chooseServiceRange(serviceRanges, used, claim)
		if err == nil && chosen != serviceRanges[0] {
			note = fmt.Sprintf("this machine has a route into %s, or another Muster uses it; Services get addresses from %s instead", serviceRanges[0], chosen)
		}
		return chosen, note, err
	}
	claim(chosen) // no control plane that starts now chooses it; one that has it keeps it
	prefix, err := netip.ParsePrefix(chosen)
	if err != nil {
		return "", "", fmt.Errorf("reading the service range: %w", err)
	}
	if other := overlap(prefix, used); other != nil && *other != prefix {
		note = fmt.Sprintf("the Services' range %s overlaps this machine's route to %s: one of the two may be unreachable", chosen, other)
	}
	return chosen, note, nil
}
