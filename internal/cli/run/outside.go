package run

import (
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// outside judges links of the code to absolute paths: those that members see are kept.
type outside struct {
	job *v1alpha1.TrainingJob
	// everything is true if members see the machine's files: on one machine, without an
	// image.
	everything bool
	kept       []string
}

// check returns an error for a link to a path that members do not see.
func (l *outside) check(link, target string) error {
	if !l.everything && !slices.ContainsFunc(l.mounts(), func(at string) bool { return below(target, at) }) {
		return fmt.Errorf("members see only the files of their image and of the job's mounts; mount it (--volume CLAIM:%s, or --data DATASET=%[1]s), copy its target, or name the link in .musterignore", path.Clean(target))
	}
	l.kept = append(l.kept, link+" -> "+target)
	return nil
}

// mounts are the absolute paths at which the job mounts volumes and data.
func (l *outside) mounts() []string {
	var out []string
	for i := range l.job.Spec.Volumes {
		out = append(out, l.job.Spec.Volumes[i].MountPath)
	}
	for i := range l.job.Spec.Data {
		out = append(out, l.job.Spec.Data[i].Mount)
	}
	return slices.DeleteFunc(out, func(at string) bool { return !path.IsAbs(at) })
}

// below reports whether a path is a folder or in it.
func below(at, folder string) bool {
	at, folder = path.Clean(at), path.Clean(folder)
	return at == folder || strings.HasPrefix(at, strings.TrimSuffix(folder, "/")+"/")
}

// mostLinks limits the number of links in a message.
const mostLinks = 3

// tell prints a note about the links that were kept.
func (l *outside) tell(to io.Writer) error {
	if len(l.kept) == 0 {
		return nil
	}
	slices.Sort(l.kept)
	names := strings.Join(l.kept[:min(mostLinks, len(l.kept))], ", ")
	if more := len(l.kept) - mostLinks; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	_, err := fmt.Fprintf(to, "Note: the code has links out of its folder (%s). The snapshot has only the links: members read the targets when they run.\n", names)
	return err
}
