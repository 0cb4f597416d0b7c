package door

import (
	"context"
	"encoding/json"
	"io"
	"net/http"

	"github.com/muster-dev/muster/api/v1alpha1"
)

func (d *Door) why(w http.ResponseWriter, r *http.Request, caller Caller) error {
	word := r.PathValue("job")
	if word == "" {
		word = r.PathValue("kind") + "/" + r.PathValue("name")
	}
	return d.answer(w, r, caller, func(ctx context.Context, namespace string) (any, error) {
		return d.opts.Answers.Why(ctx, namespace, word)
	})
}

func (d *Door) top(w http.ResponseWriter, r *http.Request, caller Caller) error {
	return d.answer(w, r, caller, d.opts.Answers.Top)
}

func (d *Door) plan(w http.ResponseWriter, r *http.Request, caller Caller) error {
	return d.answer(w, r, caller, func(ctx context.Context, namespace string) (any, error) {
		text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, jobBytes))
		if err != nil {
			return nil, err
		}
		job := &v1alpha1.TrainingJob{}
		if err := json.Unmarshal(text, job); err != nil {
			return nil, refuse(http.StatusBadRequest, "reading the training job: %v", err)
		}
		if job.Namespace != namespace {
			return nil, refuse(http.StatusBadRequest, "the training job is of namespace %q, and asked for in %q", job.Namespace, namespace)
		}
		return d.opts.Answers.Plan(ctx, caller.User, job)
	})
}

// answer answers those who speak for the namespace that they ask of.
func (d *Door) answer(w http.ResponseWriter, r *http.Request, caller Caller, find func(context.Context, string) (any, error)) error {
	namespace := r.PathValue("namespace")
	if err := caller.speaksFor(namespace); err != nil {
		return err
	}
	if d.opts.Answers == nil {
		return refuse(http.StatusNotFound, "nobody answers this here")
	}
	ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
	defer cancel()
	found, err := find(ctx, namespace)
	if err != nil {
		return err
	}
	send(w, http.StatusOK, found)
	return nil
}
