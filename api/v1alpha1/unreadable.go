package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/internal/lenient"
)

// UnmarshalJSON decodes a job. A spec that the types of its fields cannot hold is left
// empty, and Unreadable says why.
func (j *TrainingJob) UnmarshalJSON(text []byte) error {
	type plain TrainingJob
	type rest struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata,omitempty"`
		Status            TrainingJobStatus `json:"status,omitempty"`
	}
	whole, part := plain{}, rest{}
	problem, err := lenient.Unmarshal(text, &whole, &part)
	if err != nil {
		return err
	}
	if *j = TrainingJob(whole); problem != "" {
		*j = TrainingJob{TypeMeta: part.TypeMeta, ObjectMeta: part.ObjectMeta, Status: part.Status, Unreadable: problem}
	}
	return nil
}

// UnmarshalJSON decodes a pipeline. A spec that the types of its fields cannot hold is left
// empty, and Unreadable says why.
func (p *Pipeline) UnmarshalJSON(text []byte) error {
	type plain Pipeline
	type rest struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata,omitempty"`
		Status            PipelineStatus `json:"status,omitempty"`
	}
	whole, part := plain{}, rest{}
	problem, err := lenient.Unmarshal(text, &whole, &part)
	if err != nil {
		return err
	}
	if *p = Pipeline(whole); problem != "" {
		*p = Pipeline{TypeMeta: part.TypeMeta, ObjectMeta: part.ObjectMeta, Status: part.Status, Unreadable: problem}
	}
	return nil
}

// UnmarshalJSON decodes a run. A spec that the types of its fields cannot hold is left
// empty, and Unreadable says why.
func (r *PipelineRun) UnmarshalJSON(text []byte) error {
	type plain PipelineRun
	type rest struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata,omitempty"`
		Status            PipelineRunStatus `json:"status,omitempty"`
	}
	whole, part := plain{}, rest{}
	problem, err := lenient.Unmarshal(text, &whole, &part)
	if err != nil {
		return err
	}
	if *r = PipelineRun(whole); problem != "" {
		*r = PipelineRun{TypeMeta: part.TypeMeta, ObjectMeta: part.ObjectMeta, Status: part.Status, Unreadable: problem}
	}
	return nil
}
