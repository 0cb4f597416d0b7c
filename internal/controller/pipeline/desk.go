package pipeline

import (
	"sync"

	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/environment/notice"
)

// desk knows which work computes which result, so that what two want at once is
// computed once. It is of this process: whoever takes over plans anew, and asks
// anew.
type desk struct {
	// board tells of works for which something that they wait for may have come.
	board *notice.Board

	mu sync.Mutex
	// holders are who computes a result, claims what a work computes.
	holders map[claim]string
	claims  map[string]map[claim]bool
	// waiting are, by the work that they wait for, those that wait.
	waiting map[string]map[string]bool
	// labels are what people know works by.
	labels map[string]string
}

// claim is a result of a namespace.
type claim struct {
	namespace string
	key       digest.ID
}

func newDesk() *desk {
	return &desk{
		board: notice.New(), holders: map[claim]string{}, claims: map[string]map[claim]bool{},
		waiting: map[string]map[string]bool{}, labels: map[string]string{},
	}
}

// take gives a work, which people know by a label, what nobody else computes of
// some results. Of the others it says where the first is computed; whenever one of
// them may be there, the board tells.
func (d *desk) take(namespace, work, label string, keys []digest.ID) (mine, others []digest.ID, where string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.labels[work] = label
	for _, key := range keys {
		c := claim{namespace, key}
		holder := d.holders[c]
		if holder != "" && holder != work {
			if others = append(others, key); where == "" {
				where = d.labels[holder]
			}
			add(d.waiting, holder, work)
			continue
		}
		d.holders[c] = work
		add(d.claims, work, c)
		mine = append(mine, key)
	}
	return mine, others, where
}

// add adds to a set.
func add[K, V comparable](sets map[K]map[V]bool, of K, value V) {
	if sets[of] == nil {
		sets[of] = map[V]bool{}
	}
	sets[of][value] = true
}

// done says that results are recorded, or that they failed: whoever waited for them
// looks.
func (d *desk) done(namespace, work string, keys []digest.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, key := range keys {
		if c := (claim{namespace, key}); d.holders[c] == work {
			delete(d.holders, c)
			delete(d.claims[work], c)
		}
	}
	d.tell(work)
}

// leave gives back what a work has that goes on no more.
func (d *desk) leave(work string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for c := range d.claims[work] {
		delete(d.holders, c)
	}
	delete(d.claims, work)
	delete(d.labels, work)
	for _, others := range d.waiting {
		delete(others, work)
	}
	d.tell(work)
}

// tell tells those who wait for a work; they say again what they wait for. The
// caller holds the lock.
func (d *desk) tell(work string) {
	for other := range d.waiting[work] {
		d.board.Post(other)
	}
	delete(d.waiting, work)
}
