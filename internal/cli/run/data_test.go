package run

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/api/v1alpha1"
)

func TestParseData(t *testing.T) {
	commit := strings.Repeat("3f", 32)
	for name, tt := range map[string]struct {
		texts []string
		want  []v1alpha1.JobData
		says  string
	}{
		"a dataset":   {[]string{"digits"}, []v1alpha1.JobData{{Dataset: "digits", Mount: "/muster/data/digits"}}, ""},
		"a branch":    {[]string{"digits@next"}, []v1alpha1.JobData{{Dataset: "digits", Version: "next", Mount: "/muster/data/digits"}}, ""},
		"all of it":   {[]string{"digits@v1~2:/train/=/data/"}, []v1alpha1.JobData{{Dataset: "digits", Version: "v1~2", Path: "/train", Mount: "/data"}}, ""},
		"a commit":    {[]string{"digits@" + commit + "=in"}, []v1alpha1.JobData{{Dataset: "digits", Version: commit, Mount: "in"}}, ""},
		"a glob":      {[]string{"digits:/a=b/*.png=/data"}, []v1alpha1.JobData{{Dataset: "digits", Path: "/a=b/*.png", Mount: "/data"}}, ""},
		"several":     {[]string{"digits=/a", "words=/b"}, []v1alpha1.JobData{{Dataset: "digits", Mount: "/a"}, {Dataset: "words", Mount: "/b"}}, ""},
		"twice":       {[]string{"digits", "digits@v1"}, nil, "/muster/data/digits is mounted twice; add =MOUNT"},
		"same place":  {[]string{"digits=/a", "words=/a/"}, nil, "/a is mounted twice"},
		"no mount":    {[]string{"digits="}, nil, "the mount is missing after ="},
		"no dataset":  {[]string{"@main=/data"}, nil, "the name of a dataset is missing"},
		"as a volume": {[]string{"digits@main:/x/../y=/data"}, nil, `must not hold ".."`},
		"a bad glob":  {[]string{"digits:/[a=/data"}, nil, "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseData(tt.texts, false)
			if tt.says != "" {
				if err == nil || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("%v", err)
				}
				return
			}
			if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
				t.Error(diff, err)
			}
		})
	}
}

func TestLazyData(t *testing.T) {
	got, err := parseData([]string{"digits:/train", "words@v1"}, true)
	yes := true
	if diff := cmp.Diff([]v1alpha1.JobData{
		{Dataset: "digits", Path: "/train", Mount: "/muster/data/digits", Lazy: &yes}, {Dataset: "words", Version: "v1", Mount: "/muster/data/words", Lazy: &yes},
	}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if _, err := parseData([]string{"digits:/*.png"}, true); err == nil || !strings.Contains(err.Error(), "a mount shows no pattern") {
		t.Errorf("a pattern: %v", err)
	}
	if _, err := parseData(nil, true); err == nil || !strings.Contains(err.Error(), "--lazy is about what --data names") {
		t.Errorf("without data: %v", err)
	}
}
