package up

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/node/network"
)

func TestOccupied(t *testing.T) {
	services := netip.MustParsePrefix("10.96.0.0/16")
	for _, tt := range []struct {
		name string
		err  error
		want []string
	}{
		{"another Muster", &network.OccupiedError{Range: services, Used: services, Interface: "muster0", StateDir: "/data/b/network", Other: true},
			[]string{"in use by another Muster, whose network is kept in /data/b/network", "muster --home /data/b down", "muster --home /data/a up --tier plain", "muster --home FOLDER up"}},
		{"a VPN", &network.OccupiedError{Range: services, Used: netip.MustParsePrefix("10.0.0.0/8"), Interface: "tun0"},
			[]string{"interface tun0 has 10.0.0.0/8", "take tun0 down"}},
		{"nobody known", &network.OccupiedError{Range: services, Used: services}, []string{"free that range"}},
	} {
		err := occupied(invocation{program: "muster --home /data/a"}, fmt.Errorf("opening the network: %w", tt.err))
		if code, _ := exit.Of(err); code != exit.Failure {
			t.Errorf("%s: code %d", tt.name, code)
		}
		for _, want := range tt.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q is missing in:\n%v", tt.name, want, err)
			}
		}
	}
	other := errors.New("no netlink")
	if err := occupied(invocation{program: "muster"}, other); !errors.Is(err, other) || err.Error() != other.Error() {
		t.Errorf("another error became %v", err)
	}
}
