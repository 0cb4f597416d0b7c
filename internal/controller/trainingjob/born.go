package trainingjob

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// showing is how long the cache is given to show a gang that was made. After
// that it is made again, which is refused if it is there.
const showing = 2 * time.Second

// manyMade is from how many on those that nobody asked about are forgotten.
const manyMade = 1024

// create makes what belongs to a job. What is there already is as good; a gang
// that was made just now is not made again.
func (c *Controller) create(ctx context.Context, job *v1alpha1.TrainingJob, object client.Object) error {
	_, gang := object.(*v1alpha1.Gang)
	if gang && c.hasJustMade(job.UID) {
		return nil
	}
	err := c.client.Create(ctx, object)
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating %s: %w", describe(object), err)
	}
	if gang && err == nil {
		c.bear(job.UID)
	}
	return nil
}

// bear remembers that a job's gang was made.
func (c *Controller) bear(job types.UID) {
	now := c.deps.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made[job] = now
	if len(c.made) < manyMade {
		return
	}
	for uid, at := range c.made {
		if now.Sub(at) >= showing {
			delete(c.made, uid)
		}
	}
}

// hasJustMade reports whether a job's gang was made and the cache may not have
// shown it yet.
func (c *Controller) hasJustMade(job types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, made := c.made[job]
	return made && c.deps.Now().Sub(at) < showing
}

// shown forgets that a job's gang was made: the cache has shown it.
func (c *Controller) shown(job types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.made, job)
}
