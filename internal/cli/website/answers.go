package website

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/top"
	"github.com/muster-dev/muster/internal/people/web"
)

const (
	// patience bounds one answer.
	patience    = 15 * time.Second
	reviewPath  = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
	reviewBytes = 1 << 20
)

// reviewer asks the API server who a caller is.
type reviewer struct{}

// answers reads the API by the ways of callers.
type answers struct {
	reviewer
	scheme *runtime.Scheme
	mapper meta.RESTMapper
}

// newAnswers returns answers about the server of a configuration, which only finds its kinds.
func newAnswers(config *rest.Config) (*answers, error) {
	scheme, err := connection.Scheme()
	if err != nil {
		return nil, err
	}
	mapper, err := connection.Mapper(config)
	if err != nil {
		return nil, err
	}
	return &answers{scheme: scheme, mapper: mapper}, nil
}

// Review implements [web.Answers].
func (reviewer) Review(ctx context.Context, way web.Way) (who web.Identity, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	body, err := json.Marshal(authenticationv1.SelfSubjectReview{TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "SelfSubjectReview"}})
	if err != nil {
		return who, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, way.Server.JoinPath(reviewPath).String(), bytes.NewReader(body))
	if err != nil {
		return who, err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := way.Transport.RoundTrip(r)
	if err != nil {
		return who, problem(fmt.Errorf("asking the API server who you are: %w", err))
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, reviewBytes))
	if err != nil {
		return who, fmt.Errorf("reading who you are: %w", err)
	}
	if answer.StatusCode != http.StatusCreated {
		return who, &web.Problem{Status: http.StatusBadGateway, Err: fmt.Errorf("the API server does not say who you are: %s", answer.Status)}
	}
	var review authenticationv1.SelfSubjectReview
	if err := json.Unmarshal(text, &review); err != nil {
		return who, fmt.Errorf("reading who you are: %w", err)
	}
	return web.Identity{User: review.Status.UserInfo.Username, Groups: review.Status.UserInfo.Groups}, nil
}

// GPUs implements [web.Answers].
func (a *answers) GPUs(ctx context.Context, way web.Way) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	reader, err := client.New(&rest.Config{Host: way.Server.String(), QPS: -1},
		client.Options{HTTPClient: &http.Client{Transport: way.Transport}, Scheme: a.scheme, Mapper: a.mapper})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	report, err := top.Look(ctx, reader)
	if err != nil {
		return nil, problem(err)
	}
	return report, nil
}

// problem gives an error of the API the status for the page.
func problem(err error) error {
	status := http.StatusBadGateway
	switch {
	case apierrors.IsForbidden(err):
		status = http.StatusForbidden
	case errors.Is(err, context.DeadlineExceeded), apierrors.IsTimeout(err), apierrors.IsServiceUnavailable(err):
		status = http.StatusServiceUnavailable
	}
	return &web.Problem{Status: status, Err: err}
}

var _ web.Answers = (*answers)(nil)
