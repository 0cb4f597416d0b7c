// Package member owns how users name the members of a job, "worker-0" or
// "mnist/worker-0", and which pod that is.
//
// It must not know any command.
package member

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/kind"
	"github.com/muster-dev/muster/internal/cli/suggestion"
)

// Member is one member of a job.
type Member struct {
	// Role is its role: "worker".
	Role string
	// Index is its index in the role, from 0.
	Index int
}

// String returns "worker-0".
func (m Member) String() string { return m.Role + "-" + strconv.Itoa(m.Index) }

// Pod returns the name of the member's pod in the job.
func (m Member) Pod(job string) string { return job + "-" + m.String() }

// Parse reads "worker-0", or the pod's name "mnist-worker-0" where job is
// "mnist".
func Parse(job, word string) (Member, bool) {
	word = strings.TrimPrefix(word, job+"-")
	cut := strings.LastIndexByte(word, '-')
	if cut <= 0 {
		return Member{}, false
	}
	index, err := strconv.Atoi(word[cut+1:])
	if err != nil || index < 0 {
		return Member{}, false
	}
	return Member{Role: word[:cut], Index: index}, true
}

// OfPod returns which member a pod is; false for a pod that is none.
func OfPod(pod *corev1.Pod) (Member, bool) {
	role := pod.Labels[v1alpha1.LabelRole]
	index, err := strconv.Atoi(pod.Labels[v1alpha1.LabelIndex])
	if role == "" || err != nil {
		return Member{}, false
	}
	return Member{Role: role, Index: index}, true
}

// Of lists the members that a job's spec asks for, in order.
func Of(job *v1alpha1.TrainingJob) []Member {
	var members []Member
	for _, role := range job.Spec.Roles {
		replicas := int32(1)
		if role.Replicas != nil {
			replicas = *role.Replicas
		}
		for index := range replicas {
			members = append(members, Member{Role: role.Name, Index: int(index)})
		}
	}
	slices.SortFunc(members, Compare)
	return members
}

// Container returns the name of the container that is the member, the first.
func Container(pod *corev1.Pod) string {
	if len(pod.Spec.Containers) == 0 {
		return ""
	}
	return pod.Spec.Containers[0].Name
}

// ranks are the roles in the order in which people think of them.
var ranks = map[string]int{"chief": -4, "worker": -3, "ps": -2, "evaluator": -1}

// Compare orders members: chief, worker, ps, evaluator, other roles by name;
// then by index.
func Compare(a, b Member) int {
	return cmp.Or(cmp.Compare(ranks[a.Role], ranks[b.Role]), cmp.Compare(a.Role, b.Role), cmp.Compare(a.Index, b.Index))
}

// Job reads a job. A job that does not exist is an error of exit code 3 that
// names the nearest one there is.
func Job(ctx context.Context, reader client.Reader, namespace, name string) (*v1alpha1.TrainingJob, error) {
	if strings.Contains(name, "/") {
		return nil, exit.Usage("%s: this is no training job: give a job's name, tj/NAME, tfjob/NAME or pytorchjob/NAME; `muster describe %s` shows an object of any kind and its events", name, name)
	}
	job := &v1alpha1.TrainingJob{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, job)
	if err == nil {
		return job, nil
	}
	if !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading the training job %s: %w", name, err)
	}
	if foreign := Foreign(ctx, reader, namespace, name); foreign != nil {
		return nil, exit.NotFound("the %s %s has no training job: %s", foreign.GetKind(), name, standing(foreign))
	}
	var jobs v1alpha1.TrainingJobList
	if listErr := reader.List(ctx, &jobs, client.InNamespace(namespace)); listErr != nil {
		return nil, exit.NotFound("there is no training job %s in namespace %s", name, namespace)
	}
	names := make([]string, len(jobs.Items))
	for i := range jobs.Items {
		names[i] = jobs.Items[i].Name
	}
	hint := suggestion.Phrase(name, names)
	if len(names) == 0 {
		hint = ": there is none at all"
	}
	return nil, exit.NotFound("there is no training job %s in namespace %s%s", name, namespace, hint)
}

// Pods lists the pods of a job's members, ordered by member.
func Pods(ctx context.Context, reader client.Reader, namespace, job string) ([]corev1.Pod, error) {
	var pods corev1.PodList
	if err := reader.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelJob: job}); err != nil {
		return nil, fmt.Errorf("listing the members of %s: %w", job, err)
	}
	pods.Items = slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { _, ok := OfPod(&pod); return !ok })
	slices.SortFunc(pods.Items, func(a, b corev1.Pod) int {
		left, _ := OfPod(&a)
		right, _ := OfPod(&b)
		return Compare(left, right)
	})
	return pods.Items, nil
}

// Choose returns the pod that word names among a job's; where word is empty,
// the first that runs. Errors are of exit code 3.
func Choose(pods []corev1.Pod, job, word string) (*corev1.Pod, error) {
	names := make([]string, 0, len(pods))
	for i := range pods {
		m, _ := OfPod(&pods[i])
		names = append(names, m.String())
		if word != "" && (m.String() == word || pods[i].Name == word) {
			return &pods[i], nil
		}
		if word == "" && pods[i].Status.Phase == corev1.PodRunning && pods[i].DeletionTimestamp == nil {
			return &pods[i], nil
		}
	}
	switch {
	case len(pods) == 0:
		return nil, exit.NotFound("%s has no members now: they start once it is placed (see `muster why %s`) and go when it ends", job, job)
	case word == "":
		return nil, exit.NotFound("none of the members of %s runs now (%s)", job, strings.Join(names, ", "))
	}
	return nil, None(job, word, names)
}

// shown is how many members a message names.
const shown = 8

// None is the error, of exit code 3, that a job has no member as word names
// it, but these.
func None(job, word string, names []string) error {
	has := names
	if len(has) > shown {
		has = append(has[:shown:shown], fmt.Sprintf("and %d more", len(names)-shown))
	}
	return exit.NotFound("%s has no member %s: it has %s%s", job, word, strings.Join(has, ", "), suggestion.Phrase(word, names))
}

// Words reads the words that name a job and perhaps a member of it: "mnist",
// "mnist worker-0" or "mnist/worker-0", each perhaps after a kind: "tfjob/mnist".
// There must be one or two.
func Words(words []string) (job, member string, err error) {
	job, member, joined := strings.Cut(kind.Job(words[0]), "/")
	switch {
	case joined && (job == "" || member == "" || strings.Contains(member, "/")):
		return "", "", exit.Usage("%s: give a job and a member, such as mnist/worker-0", words[0])
	case joined && len(words) == 2:
		return "", "", exit.Usage("%s names a member already: leave %s out", words[0], words[1])
	case len(words) == 2:
		member = words[1]
	}
	return job, member, nil
}
