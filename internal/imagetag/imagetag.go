package imagetag

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/distribution/reference"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
	"oras.land/oras-go/v2/registry/remote/errcode"
)

const (
	// fresh is for how long an answer counts.
	fresh = 30 * time.Second
	// patience is how long a registry may take.
	patience = 10 * time.Second
	// firstRetry is how long a registry is left alone that did not answer; it doubles up to
	// lastRetry. What one has refused is asked again after the former.
	firstRetry = 2 * time.Second
	lastRetry  = time.Minute
	// atOnce is how many questions are asked at a time, and ofOne how many of them of one
	// registry: one that takes its time keeps few others waiting.
	atOnce = 64
	ofOne  = 4
	// longest is how long what went wrong may be in words.
	longest = 300
	// skew is by how much another clock may be ahead of this one before what it says counts
	// for nothing.
	skew = 5 * time.Second
	// most is how many names are remembered; beyond it, those that nobody asks for go.
	most = 4096
)

// State is what is known of an image.
type State struct {
	// Digest names what is in it, and Exact the image by it; empty: that is not known yet.
	Digest, Exact string
	// Failed says that asking again at once is of no use; Message says why, or what is
	// waited for.
	Failed  bool
	Message string
}

// Options say how registries are asked.
type Options struct {
	// Transport carries requests. Default: [http.DefaultTransport].
	Transport http.RoundTripper
	// Config is a file such as docker login writes, by which registries let in who asks;
	// it is read for each lookup. Empty: they are asked as nobody.
	Config string
	// Now tells the time. Default: [time.Now].
	Now func() time.Time
}

// Resolver finds out what tags name. Make it with [New]; nothing is asked until
// [Resolver.Run].
type Resolver struct {
	opts Options
	todo chan string

	mu         sync.Mutex
	known      map[string]*lookup   // by full name
	registries map[string]*registry // by host
}

// registry is one that is asked, or was in vain.
type registry struct {
	busy int // questions that are open
	// failures counts those in a row without an answer; before retryAt it is asked nothing.
	failures int
	retryAt  time.Time
	problem  string
}

// lookup is what is known of one image.
type lookup struct {
	state State
	// asked is when that was asked for, and at when it was found out.
	asked, at time.Time
	// open says that it is being asked for again, and asking since when.
	open   bool
	asking time.Time
	// wanted is when somebody asked last.
	wanted time.Time
}

// New returns a resolver.
func New(o Options) *Resolver {
	if o.Transport == nil {
		o.Transport = http.DefaultTransport
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Resolver{opts: o, todo: make(chan string, most), known: map[string]*lookup{}, registries: map[string]*registry{}}
}

// Check says what is wrong with a name, whatever it names.
func Check(name string) error {
	_, err := parse(name)
	return err
}

// parse completes a name: busybox is docker.io/library/busybox:latest.
func parse(name string) (reference.Named, error) {
	full, err := reference.ParseDockerRef(name)
	if err != nil {
		return nil, fmt.Errorf("the image name %q: %w", name, err)
	}
	return full, nil
}

// Ensure says, without blocking, what is known of an image, and has its registry be asked
// where that is nothing or too old. Too old is what was asked for before since, too: a tag
// may have moved by then. A since that is long to come by this clock counts for nothing.
func (r *Resolver) Ensure(name string, since time.Time) State {
	full, err := parse(name)
	if err != nil {
		return State{Failed: true, Message: err.Error()}
	}
	if d, ok := full.(reference.Digested); ok { // nobody has to be asked
		return State{Digest: d.Digest().String(), Exact: name}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now, key := r.opts.Now(), full.String()
	l := r.known[key]
	if l == nil {
		r.forget(now)
		l = &lookup{}
		r.known[key] = l
	}
	l.wanted = now
	if ahead := since.Sub(now); ahead > skew {
		since = time.Time{}
	} else if ahead > 0 { // what is found out now would be too old
		return waits(full)
	}
	switch {
	case !l.asked.Before(since) && l.fresh(now):
		return l.state
	case l.open:
		return waits(full)
	}
	from := r.registries[reference.Domain(full)]
	if from == nil {
		from = &registry{}
		r.registries[reference.Domain(full)] = from
	}
	if now.Before(from.retryAt) {
		return State{Message: from.problem}
	}
	if from.busy < ofOne && (from.failures == 0 || from.busy == 0) {
		select {
		case r.todo <- key:
			l.open, l.asking = true, now
			from.busy++
		default: // so many are asked for that it comes to this one later
		}
	}
	return waits(full)
}

// fresh says whether what is known counts for who wants it now.
func (l *lookup) fresh(now time.Time) bool {
	age := now.Sub(l.at)
	return l.state.Digest != "" && age < fresh || l.state.Failed && age < firstRetry
}

// waits is the state of an image of which an answer is waited for: what was found before may
// not be so any more.
func waits(full reference.Named) State {
	return State{Message: fmt.Sprintf("%s is asked what %s is", reference.Domain(full), full)}
}

// forget makes room for one more name.
func (r *Resolver) forget(now time.Time) {
	if len(r.known) < most {
		return
	}
	for key, l := range r.known {
		if !l.open && now.Sub(l.wanted) > lastRetry {
			delete(r.known, key)
		}
	}
	for host, from := range r.registries {
		if from.busy == 0 && now.Sub(from.retryAt) > lastRetry {
			delete(r.registries, host)
		}
	}
}

// Run asks registries until ctx ends.
func (r *Resolver) Run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	for range atOnce {
		group.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case key := <-r.todo:
					r.look(ctx, key)
				}
			}
		})
	}
	<-ctx.Done()
	return nil
}

// look asks for one image.
func (r *Resolver) look(ctx context.Context, key string) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	full, err := parse(key)
	if err != nil {
		return // cannot be: it is the name in full
	}
	digest, err := r.ask(ctx, full)
	r.mu.Lock()
	defer r.mu.Unlock()
	l, from, now := r.known[key], r.registries[reference.Domain(full)], r.opts.Now()
	l.open = false
	from.busy--
	switch {
	case err == nil:
		l.state = State{Digest: digest, Exact: reference.TrimNamed(full).String() + "@" + digest}
	case final(err):
		l.state = State{Failed: true, Message: fmt.Sprintf("what %s is cannot be found out: %v", full, err)}
	default: // what was known may count for some, for as long as it does
		from.problem = fmt.Sprintf("what is at %s cannot be found out: %v; it is asked again", reference.Domain(full), err)
		from.retryAt = now.Add(min(firstRetry<<min(from.failures, 10), lastRetry))
		from.failures++
		return
	}
	l.asked, l.at = l.asking, now
	from.failures, from.retryAt = 0, time.Time{}
}

// ask asks the registry of an image for its digest.
func (r *Resolver) ask(ctx context.Context, full reference.Named) (string, error) {
	repository, err := remote.NewRepository(reference.TrimNamed(full).String())
	if err != nil {
		return "", err
	}
	client := &auth.Client{Client: &http.Client{Transport: r.opts.Transport}}
	if r.opts.Config != "" {
		if _, err := os.Stat(r.opts.Config); err != nil {
			return "", fmt.Errorf("reading who asks: %w", err)
		}
		store, err := credentials.NewFileStore(r.opts.Config)
		if err != nil {
			return "", fmt.Errorf("reading who asks: %w", err)
		}
		client.Credential = credentials.Credential(store)
	}
	repository.Client = client
	tagged, ok := full.(reference.Tagged)
	if !ok {
		return "", errors.New("it has no tag") // cannot be: names are completed
	}
	found, err := repository.Resolve(ctx, tagged.Tag())
	if err != nil {
		return "", told(err)
	}
	return found.Digest.String(), nil
}

// refusal is an answer of a registry that stays as it is until somebody does something.
type refusal struct{ error }

func final(err error) bool {
	_, ok := errors.AsType[refusal](err)
	return ok
}

// letIn is what to do about a registry that refuses.
const letIn = "name the image by its digest, or have the installation be let in (pipelines.tags.secret)"

// told is an error with what to do about it.
func told(err error) error {
	if errors.Is(err, errdef.ErrNotFound) {
		return refusal{errors.New("its registry has no such image or tag")}
	}
	if errors.Is(err, auth.ErrBasicCredentialNotFound) {
		return refusal{errors.New("its registry wants to know who asks: " + letIn)}
	}
	if answer, ok := errors.AsType[*errcode.ErrorResponse](err); ok {
		switch answer.StatusCode {
		case http.StatusUnauthorized, http.StatusForbidden:
			return refusal{fmt.Errorf("its registry does not let Muster look (%d): %s", answer.StatusCode, letIn)}
		}
		return fmt.Errorf("it answers %d %s", answer.StatusCode, http.StatusText(answer.StatusCode))
	}
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err // without the address, to which it may have been sent with a secret
	}
	words := err.Error()
	return errors.New(words[:min(len(words), longest)])
}
