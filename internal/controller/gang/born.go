package gang

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/internal/memberpod"
)

// birth is a pod that was made.
type birth struct {
	placement types.UID
	at        time.Time
}

// showing is how long the cache is given to show a pod that was made. After
// that it is made again, which is refused if it is there: a pod that came and
// went unseen is missed no longer than this.
const showing = 2 * time.Second

// bear remembers that a member's pod was made.
func (c *Controller) bear(gang types.NamespacedName, pod string, placement types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.born[gang] == nil {
		c.born[gang] = map[string]birth{}
	}
	c.born[gang][pod] = birth{placement, c.options.Now()}
}

// mourn forgets that a pod was made: it is no more.
func (c *Controller) mourn(p *corev1.Pod) {
	key := types.NamespacedName{Namespace: p.Namespace, Name: gangOf(p)}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.born[key], p.Name)
}

// unborn returns those of the missing members whose pods were not made just
// now, and how long the others are given to be shown: 0 if there are none.
// Each event of a pod leads to another look at the gang, and the cache may lag
// behind what the look before that made.
func (c *Controller) unborn(o observed, missing []place) ([]place, time.Duration) {
	key := client.ObjectKeyFromObject(o.gang)
	c.mu.Lock()
	defer c.mu.Unlock()
	born := c.born[key]
	for _, p := range o.pods {
		delete(born, p.Name)
	}
	if len(born) == 0 {
		return missing, 0
	}
	var out []place
	var wait time.Duration
	for _, m := range missing {
		name := memberpod.Name(key.Name, m.member.Role, m.member.Index)
		b, made := born[name]
		left := showing - o.now.Sub(b.at)
		if made && b.placement == m.placement.UID && left > 0 {
			wait = max(wait, left)
			continue
		}
		delete(born, name)
		out = append(out, m)
	}
	return out, wait
}
