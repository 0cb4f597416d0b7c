package website

import (
	"github.com/muster-dev/muster/internal/people/session"
	"github.com/muster-dev/muster/internal/people/web"
)

// Passage returns the ways of callers, for tests that write: the console has no page yet that does.
func (c *Cluster) Passage() web.Passage { return c.ways }

// Table returns the sessions.
func (c *Cluster) Table() *session.Table { return c.table }
