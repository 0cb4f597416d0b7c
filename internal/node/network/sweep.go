package network

import (
	"errors"
	"fmt"
	"sync"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// sweeper removes links together. The kernel waits some 20 ms for its own
// readers for each removal, however many links go at once, and holds everyone
// else up meanwhile: whoever comes during one removal shares the next.
type sweeper struct {
	handle *netlink.Handle
	// group marks the links that go: a number that nobody else uses.
	group int

	// busy is held by the one removal at work.
	busy sync.Mutex
	mu   sync.Mutex
	next *sweep
}

// sweep is one removal.
type sweep struct {
	links []netlink.Link
	done  chan struct{}
	err   error
}

// remove returns when the link is gone. It is no error if it was.
func (s *sweeper) remove(link netlink.Link) error {
	s.mu.Lock()
	mine, first := s.next, s.next == nil
	if first {
		mine = &sweep{done: make(chan struct{})}
		s.next = mine
	}
	mine.links = append(mine.links, link)
	s.mu.Unlock()
	if first {
		s.busy.Lock()
		s.mu.Lock()
		s.next = nil
		s.mu.Unlock()
		mine.err = s.removeAll(mine.links)
		s.busy.Unlock()
		close(mine.done)
	}
	<-mine.done
	return mine.err
}

// removeAll marks the links and removes everything that is marked.
func (s *sweeper) removeAll(links []netlink.Link) error {
	marked := 0
	for _, link := range links {
		err := s.handle.LinkSetGroup(link, s.group)
		switch {
		case err == nil:
			marked++
		case !errors.Is(err, unix.ENODEV):
			return fmt.Errorf("marking the link %s for removal: %w", link.Attrs().Name, err)
		}
	}
	if marked == 0 {
		return nil
	}
	request := nl.NewNetlinkRequest(unix.RTM_DELLINK, unix.NLM_F_ACK)
	request.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
	request.AddData(nl.NewRtAttr(unix.IFLA_GROUP, nl.Uint32Attr(uint32(s.group))))
	if _, err := request.Execute(unix.NETLINK_ROUTE, 0); err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("removing links: %w", err)
	}
	return nil
}
