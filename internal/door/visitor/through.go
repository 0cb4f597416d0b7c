package visitor

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// tokenSeconds is for how long a token is asked for: the least that servers
// give.
const tokenSeconds = 600

// Through returns a visitor that comes by the API server, for somebody with
// credentials there.
func Through(config *rest.Config, connections *http.Client, api client.Client) (*Visitor, error) {
	address, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("reading the API server's address: %w", err)
	}
	t := &tokens{api: api, have: map[string]string{}}
	base := strings.TrimSuffix(address.String(), "/") + "/api/v1/namespaces/" + v1alpha1.SystemNamespace + "/services/" + v1alpha1.DoorService + "/proxy"
	full := &tokens{api: api, have: map[string]string{}, groups: true}
	return &Visitor{base: base, http: connections, token: t.of, full: full.of}, nil
}

// tokens asks the API server for tokens.
type tokens struct {
	api client.Client

	mu   sync.Mutex
	have map[string]string
	// groups has the tokens say in which groups who asks is.
	groups bool
	// who are the audiences that say whose credentials these are; none while that is
	// not known.
	who []string
}

// of returns a token that speaks for a namespace.
func (t *tokens) of(ctx context.Context, namespace string, renew bool) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if token := t.have[namespace]; token != "" && !renew {
		return token, nil
	}
	token, err := t.ask(ctx, namespace)
	if apierrors.IsNotFound(err) {
		// Administrators need not have made one for each namespace.
		no := false
		account := &corev1.ServiceAccount{
			ObjectMeta:                   metav1.ObjectMeta{Namespace: namespace, Name: v1alpha1.DoorAccount, Labels: map[string]string{"app.kubernetes.io/part-of": "muster"}},
			AutomountServiceAccountToken: &no,
		}
		if made := t.api.Create(ctx, account); made == nil || apierrors.IsAlreadyExists(made) {
			token, err = t.ask(ctx, namespace)
		}
	}
	switch {
	case apierrors.IsNotFound(err):
		return "", &Refused{Status: http.StatusForbidden, Text: fmt.Sprintf(
			"namespace %[1]s has no service account %[2]s, by which Muster's manager knows who speaks for it: an administrator makes it with `kubectl -n %[1]s create serviceaccount %[2]s`",
			namespace, v1alpha1.DoorAccount)}
	case apierrors.IsForbidden(err):
		return "", &Refused{Status: http.StatusForbidden, Text: fmt.Sprintf(
			"you may not speak for namespace %s at Muster's manager: an administrator gives the right with `muster user add`, or the right to create serviceaccounts/token of %s there (%v)",
			namespace, v1alpha1.DoorAccount, err)}
	case err != nil:
		return "", fmt.Errorf("asking for a token for Muster's manager: %w", err)
	}
	t.have[namespace] = token
	return token, nil
}

func (t *tokens) ask(ctx context.Context, namespace string) (string, error) {
	seconds := int64(tokenSeconds)
	audiences := append([]string{v1alpha1.DoorAudience}, t.names(ctx)...)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences, ExpirationSeconds: &seconds}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: v1alpha1.DoorAccount}}
	if err := t.api.SubResource("token").Create(ctx, account, request); err != nil {
		return "", err
	}
	return request.Status.Token, nil
}

// names are the audiences for the name, and the groups if they are wanted, by which the
// API server knows who asks; none where it does not say.
func (t *tokens) names(ctx context.Context) []string {
	review := &authenticationv1.SelfSubjectReview{}
	if t.who == nil && t.api.Create(ctx, review) == nil && review.Status.UserInfo.Username != "" {
		t.who = []string{v1alpha1.DoorUser + review.Status.UserInfo.Username}
		for _, group := range review.Status.UserInfo.Groups {
			if t.groups {
				t.who = append(t.who, v1alpha1.DoorGroup+group)
			}
		}
	}
	return t.who
}
