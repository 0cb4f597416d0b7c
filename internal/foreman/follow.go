package foreman

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/muster-dev/muster/internal/foreman/shift"
	"github.com/muster-dev/muster/internal/osfile"
)

// mostSecret is the longest secret of members, in bytes.
const mostSecret = 1024

// secretFor is what a member knows the others of its attempt of the job by, and nobody
// of another one: such a pod may still run on a node that is cut off. It follows from a
// secret in the folder of the datum. One for each foreman will do: members that have two
// do not meet, and the job begins anew.
func (w *Work) secretFor(folder string, who *person) (string, error) {
	w.parts.Lock()
	defer w.parts.Unlock()
	in, err := os.OpenRoot(folder)
	if err != nil {
		return "", fmt.Errorf("making the secret of members: %w", err)
	}
	defer func() { _ = in.Close() }()
	key, err := osfile.ReadRegular(in, shift.SecretFile, mostSecret)
	if errors.Is(err, fs.ErrNotExist) {
		key = []byte(rand.Text() + rand.Text())
		err = osfile.ReplaceRegular(in, shift.SecretFile, key, 0o600)
	}
	if err != nil {
		return "", fmt.Errorf("making the secret of members: %w", err)
	}
	mac := hmac.New(sha256.New, key)
	_, _ = fmt.Fprintf(mac, "%s %d", who.Job, who.Attempt) // which cannot fail
	return hex.EncodeToString(mac.Sum(nil)), nil
}

// sayWhen tells a member when to bring its part: a leader once all others have, in its
// own attempt, and these once the leader asks.
func (w *Work) sayWhen(out http.ResponseWriter, in *http.Request) {
	who, err := personOf(in)
	switch {
	case err != nil:
		http.Error(out, err.Error(), http.StatusForbidden)
		return
	case w.spec.Leader == "":
		http.Error(out, "nobody leads the members of this work", shift.StatusRefused)
		return
	}
	timer := time.NewTimer(waitAtMost)
	defer timer.Stop()
	for {
		news, err := w.ripe(in.Context(), &who)
		switch {
		case err == nil:
			out.WriteHeader(http.StatusNoContent)
			return
		case !errors.Is(err, ErrMissing):
			http.Error(out, err.Error(), statusOf(err))
			return
		}
		select {
		case <-news:
		case <-w.ended:
		case <-in.Context().Done():
			return
		case <-timer.C:
			out.WriteHeader(shift.StatusNotYet)
			return
		}
	}
}

// ripe says that a member is to bring its part; [ErrMissing] until it is, and then what
// tells of news.
func (w *Work) ripe(ctx context.Context, who *person) (<-chan struct{}, error) {
	if err := w.welcome(who); err != nil {
		return nil, err
	}
	defer w.hears(who)()
	news, closing := w.closes(who)
	if who.Member != w.spec.Leader {
		if !closing {
			return news, ErrMissing
		}
		return news, nil
	}
	w.parts.Lock()
	defer w.parts.Unlock()
	if err := w.restore(ctx); err != nil {
		return nil, err
	}
	return news, w.followed(&part{person: *who})
}

// closes notes that the leader of an attempt of the job is done, if that is who asks, and
// says whether that of who asks is; news are what tells when it may be.
func (w *Work) closes(who *person) (news <-chan struct{}, done bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	own := term{job: who.Job, attempt: who.Attempt}
	if who.Member == w.spec.Leader && w.heeds(who) && (w.closing == nil || w.closing.before(own)) {
		w.closing = &own
		w.changed()
	}
	return w.news, w.closing != nil && *w.closing == own
}

// term is an attempt of a job. Those of different jobs have the same numbers.
type term struct {
	job     string
	attempt int64
}

// before says that another term has followed this one, of which somebody is heard now.
func (t *term) before(now term) bool { return t.job != now.job || t.attempt < now.attempt }

// followed says whether all followers of a leader have brought their parts; the caller
// holds the lock of parts.
func (w *Work) followed(leader *part) error {
	there, err := w.brought()
	if err != nil {
		return err
	}
	began := w.began()
	if who := w.lost(leader, began, there); who != "" {
		return fmt.Errorf("%s: %w", who, errTorn)
	}
	there = append(there, *leader) // behind one that it may have brought before
	_, err = together(w.spec.Leader, w.spec.Followers, began, there)
	return err
}

// together are the parts of a leader and those of its attempt of the job, where they are
// whole: something of each follower, and of each pod that has begun in that attempt, and
// of none that failed.
func together(leader string, followers []string, began []person, parts []part) ([]part, error) {
	var first *part
	for i := range parts {
		if parts[i].Member == leader {
			first = &parts[i]
		}
	}
	if first == nil || first.Outcome.Error != "" {
		return nil, fmt.Errorf("%s: %w", leader, ErrMissing)
	}
	members, pods, all := map[string]bool{}, map[string]bool{}, []part{}
	for i := range parts {
		p := &parts[i]
		if p.Attempt != first.Attempt || p.Outcome.Error != "" || p.Member == leader && p != first {
			continue
		}
		members[p.Member], pods[p.Pod] = true, true
		all = append(all, *p)
	}
	var lack []string
	for _, name := range followers {
		if !members[name] {
			lack = append(lack, name)
		}
	}
	for i := range began {
		p := &began[i]
		if p.Attempt == first.Attempt && !pods[p.Pod] && !slices.Contains(lack, p.Member) {
			lack = append(lack, p.Member)
		}
	}
	if len(lack) > 0 {
		return nil, fmt.Errorf("%s: %w", strings.Join(lack, ", "), ErrMissing)
	}
	return all, nil
}

// Fell says in words why the leader of a job failed, if it did and nothing followed, and
// makes what it said the log of the datum.
func (w *Work) Fell(ctx context.Context) (says string, err error) {
	w.parts.Lock()
	defer w.parts.Unlock()
	if err := w.restore(ctx); err != nil {
		return "", err
	}
	there, err := w.brought()
	if err != nil {
		return "", err
	}
	for _, p := range w.began() {
		if p.Member != w.spec.Leader {
			continue
		}
		for i := range there {
			if there[i].Member == p.Member && there[i].Pod == p.Pod {
				return there[i].Outcome.Error, w.adoptLogs(filepath.Join(w.dir, partsFolder), there)
			}
		}
	}
	return "", nil
}
