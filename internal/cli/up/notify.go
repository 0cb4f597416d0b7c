package up

import (
	"context"
	"os"

	"github.com/muster-dev/muster/internal/systemd"
)

// takeNotify takes the socket of the service manager, so that no child process speaks for Muster.
func (m *machine) takeNotify() error {
	m.notify = os.Getenv(systemd.NotifySocket)
	return os.Unsetenv(systemd.NotifySocket)
}

// tell tells the service manager, if one waits for it. Muster works without.
func (m *machine) tell(ctx context.Context, messages ...string) {
	if err := systemd.Notify(ctx, m.notify, messages...); err != nil {
		m.say("%v", err)
	}
}
