package list

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/queue/describe"
)

// withLogins is a list of queues with the logins of their users.
type withLogins struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metav1.ListMeta `json:"metadata"`
	Items           []withLogin     `json:"items"`
}

// withLogin is a queue with the login of its user.
type withLogin struct {
	v1alpha1.Queue `json:",inline"`
	Login          string `json:"login,omitempty"`
}

// named adds logins to a list; without any it is the list.
func named(list *v1alpha1.QueueList, logins describe.Logins) any {
	if len(logins) == 0 {
		return list
	}
	out := &withLogins{TypeMeta: list.TypeMeta, Metadata: list.ListMeta, Items: []withLogin{}}
	for i := range list.Items {
		out.Items = append(out.Items, withLogin{list.Items[i], logins[list.Items[i].Name]})
	}
	return out
}
