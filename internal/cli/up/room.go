package up

import (
	"context"
	"time"

	"github.com/muster-dev/muster/internal/room"
)

// roomEvery is the interval of checks of the disk.
const roomEvery = 2 * time.Second

// lookAtRoom keeps or releases the reserve, and notes whether only removal works. It reports
// whether that has changed.
func (m *machine) lookAtRoom() (changed bool, err error) {
	space, err := room.Tend(string(m.home))
	if err != nil {
		return false, err
	}
	was := m.state.LowRoom != ""
	// The free bytes in the message are those at the beginning of the mode.
	if space.Low() != was {
		m.state.LowRoom = space.Words()
	}
	return space.Low() != was, nil
}

// watchRoom does so until ctx ends. The state is the caller's goroutine's.
func (m *machine) watchRoom(ctx context.Context) error {
	tick := time.NewTicker(roomEvery)
	defer tick.Stop()
	failed := ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		changed, err := m.lookAtRoom()
		if changed {
			m.sayRoom()
			err = m.home.Write(m.state)
		}
		if err != nil && err.Error() != failed {
			failed = err.Error()
			m.log.Warn("checking the free space on the disk", "error", err)
		}
	}
}

// sayRoom logs that only removal works, or that everything works again.
func (m *machine) sayRoom() {
	if m.state.LowRoom == "" {
		m.say("the disk of %s has room again: everything works", m.home)
		return
	}
	m.say("%s", m.state.LowRoom)
}
