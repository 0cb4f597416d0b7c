package door

import (
	"context"
	"encoding/json"
	"io"
	"net/http"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/visibility"
)

func (d *Door) why(w http.ResponseWriter, r *http.Request, caller Caller) error {
	word := r.PathValue("job")
	if word == "" {
		word = r.PathValue("kind") + "/" + r.PathValue("name")
	}
	return d.answer(w, r, caller, d.opts.Answers != nil, func(ctx context.Context, rule visibility.Rule) (any, error) {
		return d.opts.Answers.Why(ctx, rule, rule.Own, word)
	})
}

func (d *Door) top(w http.ResponseWriter, r *http.Request, caller Caller) error {
	return d.answer(w, r, caller, d.opts.Answers != nil, func(ctx context.Context, rule visibility.Rule) (any, error) {
		return d.opts.Answers.Top(ctx, rule)
	})
}

func (d *Door) queues(w http.ResponseWriter, r *http.Request, caller Caller) error {
	return d.answer(w, r, caller, d.opts.Answers != nil, func(ctx context.Context, rule visibility.Rule) (any, error) {
		return d.opts.Answers.Queues(ctx, rule)
	})
}

func (d *Door) status(w http.ResponseWriter, r *http.Request, caller Caller) error {
	return d.answer(w, r, caller, d.opts.Health != nil, func(ctx context.Context, rule visibility.Rule) (any, error) {
		return d.opts.Health.Status(ctx, rule)
	})
}

func (d *Door) doctor(w http.ResponseWriter, r *http.Request, caller Caller) error {
	return d.answer(w, r, caller, d.opts.Health != nil, func(ctx context.Context, rule visibility.Rule) (any, error) {
		return d.opts.Health.Doctor(ctx, rule)
	})
}

func (d *Door) plan(w http.ResponseWriter, r *http.Request, caller Caller) error {
	return d.answer(w, r, caller, d.opts.Answers != nil, func(ctx context.Context, rule visibility.Rule) (any, error) {
		text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, jobBytes))
		if err != nil {
			return nil, err
		}
		job := &v1alpha1.TrainingJob{}
		if err := json.Unmarshal(text, job); err != nil {
			return nil, refuse(http.StatusBadRequest, "reading the training job: %v", err)
		}
		if job.Namespace != rule.Own {
			return nil, refuse(http.StatusBadRequest, "the training job is of namespace %q, and asked for in %q", job.Namespace, rule.Own)
		}
		return d.opts.Answers.Plan(ctx, rule, caller.User, job)
	})
}

// answer answers those who speak for the namespace that they ask of. Without there is
// nobody here who does.
func (d *Door) answer(w http.ResponseWriter, r *http.Request, caller Caller, here bool, find func(context.Context, visibility.Rule) (any, error)) error {
	namespace := r.PathValue("namespace")
	if err := caller.speaksFor(namespace); err != nil {
		return err
	}
	if !here {
		return refuse(http.StatusNotFound, "nobody answers this here")
	}
	ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
	defer cancel()
	found, err := find(ctx, d.rule(caller, namespace))
	if err != nil {
		return err
	}
	send(w, http.StatusOK, found)
	return nil
}

// rule says which names a caller sees who speaks for a namespace.
func (d *Door) rule(caller Caller, namespace string) visibility.Rule {
	return visibility.Rule{Own: namespace, Login: caller.Login, Administrator: caller.Administrator, ShowUsers: d.opts.ShowUsers}
}
