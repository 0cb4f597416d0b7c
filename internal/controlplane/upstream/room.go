package upstream

import (
	"encoding/json"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/internal/room"
)

// growing are the resources that bring work or data. Without room, none may be created.
// Their names are unique among the groups that have controllers here.
var growing = map[string]bool{
	"trainingjobs": true, "gangs": true, "pipelines": true, "pipelineruns": true, "datasets": true,
	"pods": true, "replicationcontrollers": true, "persistentvolumeclaims": true, "configmaps": true, "secrets": true,
	"deployments": true, "replicasets": true, "statefulsets": true, "daemonsets": true,
	"jobs": true, "cronjobs": true,
}

// reasonNoRoom is the reason of a refusal.
const reasonNoRoom metav1.StatusReason = "InsufficientStorage"

// refuseWithoutRoom refuses to create objects while the disk of the data folder is low.
// Reads, updates and removals pass. kube-system is the control plane's own.
func refuseWithoutRoom(dir string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && grows(r.URL.Path) {
			if err := room.Check(dir, 0); err != nil {
				refuse(w, err)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// grows reports whether a path is of a collection of growing objects in a namespace:
// /api/v1/namespaces/NAMESPACE/RESOURCE or /apis/GROUP/VERSION/namespaces/NAMESPACE/RESOURCE.
func grows(path string) bool {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case parts[0] == "api" && len(parts) == 5:
		parts = parts[2:]
	case parts[0] == "apis" && len(parts) == 6:
		parts = parts[3:]
	default:
		return false
	}
	return parts[0] == "namespaces" && parts[1] != metav1.NamespaceSystem && growing[parts[2]]
}

// refuse answers with a Status, which clients print.
func refuse(w http.ResponseWriter, reason error) {
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
		Code: http.StatusInsufficientStorage, Reason: reasonNoRoom, Message: reason.Error(),
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusInsufficientStorage)
	// A client that is gone needs no answer.
	_ = json.NewEncoder(w).Encode(status)
}
