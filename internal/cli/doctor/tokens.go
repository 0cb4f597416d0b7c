package doctor

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

// token is a Secret that holds a token of a service account. The token has no end of its
// own: it is valid until the Secret or the account is deleted.
type token struct {
	namespace, name, account string
}

// tokens returns the namespaces of users, and the token Secrets in them. It reads the
// metadata of Secrets only. A policy refuses new token Secrets there, so the found ones are
// older than the policy, or a user with the right to impersonate the account made them.
func tokens(ctx context.Context, server client.Client) (users []string, found []token, err error) {
	var namespaces metav1.PartialObjectMetadataList
	namespaces.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	if err := server.List(ctx, &namespaces, client.HasLabels{v1alpha1.LabelUser}); err != nil {
		return nil, nil, fmt.Errorf("listing the namespaces of users: %w", err)
	}
	for i := range namespaces.Items {
		users = append(users, namespaces.Items[i].Name)
	}
	if len(users) == 0 {
		return nil, nil, nil
	}
	var secrets metav1.PartialObjectMetadataList
	secrets.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	if err := server.List(ctx, &secrets, client.MatchingFields{"type": string(corev1.SecretTypeServiceAccountToken)}); err != nil {
		return nil, nil, fmt.Errorf("listing the Secrets with tokens of accounts: %w", err)
	}
	for i := range secrets.Items {
		s := &secrets.Items[i]
		// The maker of the Secret wrote the annotation, and the advice has the name in a command. Kubernetes
		// makes no token for a name that no account can have.
		account := s.Annotations[corev1.ServiceAccountNameKey]
		if slices.Contains(users, s.Namespace) && len(validation.IsDNS1123Subdomain(account)) == 0 {
			found = append(found, token{s.Namespace, s.Name, account})
		}
	}
	return users, found, nil
}

// judgeTokens names the tokens that outlive the kubeconfig of a user, and the command that
// removes each. It says nothing of a cluster without users.
func judgeTokens(s scene) []Finding {
	const name = "tokens"
	if len(s.users) == 0 {
		return nil
	}
	if len(s.tokens) == 0 {
		return []Finding{{name, Good, fmt.Sprintf("no Secret in the namespaces of %s has a token without end", terminal.Count(int64(len(s.users)), "user")), ""}}
	}
	var out []Finding
	for i := range s.tokens {
		t := &s.tokens[i]
		out = append(out, Finding{name, Limited, fmt.Sprintf("Secret %s of namespace %s has a token of service account %s that never ends", t.name, t.namespace, t.account),
			fmt.Sprintf("kubectl -n %s delete secret %s: the token then ends at once. For another one that ends: kubectl -n %[1]s create token %[3]s", t.namespace, t.name, t.account)})
	}
	return out
}
