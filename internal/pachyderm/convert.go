package pachyderm

import (
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// mountPath is where programs for Pachyderm find their files.
const mountPath = "/pfs"

// Options are what a conversion depends on beside the specifications.
type Options struct {
	// Unmountable says why nothing can be mounted at /pfs where the pipelines
	// would run, as in "the plain tier shows programs the machine's own files".
	// Empty: it can.
	Unmountable string
	// Images says that there it can be mounted for programs in images all the same,
	// which have files of their own.
	Images bool
	// Suggest returns the candidate that a word was most likely meant to be, or
	// "". Nil: only other spellings of a name are suggested.
	Suggest func(word string, candidates []string) string
}

// Result is what specifications say, in Muster's words.
type Result struct {
	// Pipelines are in the order of the file. Where a specification names a
	// project, it is the Pipeline's namespace.
	Pipelines []*v1alpha1.Pipeline
	// Notes are the fields that change nothing here, and what is different
	// from what they ask for.
	Notes []Remark
}

// Recognise says whether a file holds Pachyderm's pipeline specifications rather
// than Kubernetes' manifests, by the shape of the first object in it.
func Recognise(data []byte) bool {
	values, _ := parse(data)
	if len(values) == 0 {
		return false
	}
	first, ok := values[0].(map[string]any)
	if !ok || first["apiVersion"] != nil || first["kind"] != nil {
		return false
	}
	pipeline, ok := first["pipeline"].(map[string]any)
	return ok && pipeline["name"] != nil
}

// Convert reads specifications. If any of them says what cannot be honoured, the
// error is a [*RefusedError], which names all that stands in the way in all of
// them.
func Convert(data []byte, o Options) (Result, error) {
	values, err := parse(data)
	if err != nil {
		return Result{}, fmt.Errorf("reading pipeline specifications: %w", err)
	}
	if len(values) == 0 {
		return Result{}, errors.New("reading pipeline specifications: there are none in it")
	}
	c := &conversion{options: o, pipelines: map[string]string{}, repos: map[string]string{}, branches: map[string]string{}}
	var out Result
	for i, value := range values {
		out.Pipelines = append(out.Pipelines, c.specification(i+1, value))
	}
	if len(c.refused) > 0 {
		return Result{}, &RefusedError{Remarks: c.refused}
	}
	out.Notes = c.notes
	return out, nil
}

// conversion is the state of one Convert.
type conversion struct {
	options        Options
	pipeline       string
	refused, notes []Remark
	// pipelines, repos and branches are the names that have become something
	// else, by what they have become.
	pipelines, repos, branches map[string]string
}

func (c *conversion) refuse(at, format string, args ...any) {
	c.refused = append(c.refused, Remark{Pipeline: c.pipeline, Field: at, Text: fmt.Sprintf(format, args...)})
}

func (c *conversion) note(at, format string, args ...any) {
	c.notes = append(c.notes, Remark{Pipeline: c.pipeline, Field: at, Text: fmt.Sprintf(format, args...)})
}

// unknown refuses a field that no version has.
func (c *conversion) unknown(at, spelling string, s *shape) {
	candidates := s.names()
	near := ""
	for _, name := range candidates {
		if plain(name) == plain(spelling) {
			near = name
		}
	}
	if near == "" && c.options.Suggest != nil {
		near = c.options.Suggest(spelling, candidates)
	}
	if near != "" {
		c.refuse(at, "is not a field of pipeline specifications; did you mean %s?", near)
		return
	}
	c.refuse(at, "is not a field of pipeline specifications; known here are %s", strings.Join(candidates, ", "))
}

// plain is a name without what spellings differ by.
func plain(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(name))
}

// specification makes the nth specification's Pipeline.
func (c *conversion) specification(nth int, value any) *v1alpha1.Pipeline {
	c.pipeline = named(nth, value)
	p := &v1alpha1.Pipeline{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Pipeline"}}
	fields, ok := value.(map[string]any)
	if !ok || fields["apiVersion"] != nil {
		c.refuse("specification", "is not a pipeline specification, which has a pipeline with a name and a transform: keep other manifests in a file of their own")
		return p
	}
	m := c.message("", value, specificationShape)
	stage := &v1alpha1.Stage{MountPath: mountPath}
	project := c.identity(m, p, stage)
	c.metadata(m, p)
	c.transform(m, stage)
	c.resources(m, stage)
	c.limits(m, stage)
	c.output(m, stage)
	if input := m.message("input", inputShape); input != nil {
		stage.Input = c.input(input, project)
	} else if !m.has("input") && m.spelled["spout"] == "" {
		c.refuse("input", "give one: a pipeline runs when its input changes")
	}
	if c.options.Unmountable != "" && (stage.Environment == nil || !c.options.Images) {
		c.refuse("transform", "its program looks for files below %s, where nothing can be mounted: %s. Run it in the isolated tier or on a cluster, or make a Pipeline whose command reads the folders in $MUSTER_INPUT_<NAME> and writes to $MUSTER_OUTPUT", mountPath, c.options.Unmountable)
	}
	p.Spec.Stages = []v1alpha1.Stage{*stage}
	return p
}

// named is what the nth specification is called in remarks.
func named(nth int, value any) string {
	fields, _ := value.(map[string]any)
	pipeline, _ := fields["pipeline"].(map[string]any)
	if name, _ := pipeline["name"].(string); name != "" {
		return name
	}
	return fmt.Sprintf("specification %d", nth)
}

// identity sets names and namespace, and returns the project.
func (c *conversion) identity(m *message, p *v1alpha1.Pipeline, stage *v1alpha1.Stage) string {
	pipeline := m.message("pipeline", pipelineShape)
	if pipeline == nil {
		c.refuse("pipeline", "give an object with a name")
		return ""
	}
	name := pipeline.text("name")
	if name == "" {
		c.refuse(pipeline.field("name"), "give the pipeline a name")
	} else {
		c.names(pipeline.field("name"), name, p, stage)
	}
	project := ""
	if named := pipeline.message("project", projectShape); named != nil {
		project = named.text("name")
		p.Namespace = c.namespace(named.field("name"), project)
	}
	return project
}

// names gives the pipeline, its stage and its output the specification's name.
func (c *conversion) names(at, name string, p *v1alpha1.Pipeline, stage *v1alpha1.Stage) {
	p.Name = tame(name)
	if !pipelineName.MatchString(p.Name) || len(p.Name) < 3 || len(p.Name) > 30 {
		c.refuse(at, "%s: names have 3 to 30 letters, digits, '-' and '_' here, a letter first and no '-' or '_' last: rename the pipeline, and the repo in what reads it", describe(name))
	}
	if before, twice := c.pipelines[p.Name]; twice {
		c.refuse(at, "two pipelines would be named %s: %s and %s; rename one", p.Name, before, name)
	}
	c.pipelines[p.Name] = name
	if p.Name != name {
		c.note(at, "is %s here, and so is its dataset", p.Name)
	}
	stage.Name = p.Name
	stage.Output = &v1alpha1.StageOutput{Dataset: c.repo(at, name)}
}

// metadata sets what describes the object.
func (c *conversion) metadata(m *message, p *v1alpha1.Pipeline) {
	p.Spec.Description = m.text("description")
	if len(p.Spec.Description) > 1024 {
		c.refuse(m.field("description"), "has %d bytes: give at most 1024", len(p.Spec.Description))
	}
	if metadata := m.message("metadata", metadataShape); metadata != nil {
		p.Labels, p.Annotations = metadata.table("labels"), metadata.table("annotations")
	}
}

// output sets where results go; the dataset is set already.
func (c *conversion) output(m *message, stage *v1alpha1.Stage) {
	if stage.Output == nil {
		return
	}
	stage.Output.Branch = c.branch(m.field("output_branch"), c.pipeline, m.text("output_branch"))
	egress := m.message("egress", egressShape)
	if egress == nil {
		return
	}
	at, url := egress.field("URL"), egress.text("URL")
	if storage := egress.message("object_storage", objectStorageShape); storage != nil {
		if url != "" {
			c.refuse(at, "give one of URL and object_storage")
		}
		at, url = storage.field("url"), storage.text("url")
	}
	switch {
	case egress.spelled["sql_database"] != "": // refused already
	case !strings.HasPrefix(url, "s3://"):
		c.refuse(at, "give an s3:// address, not %s: other object stores are reached by the one they have for S3's protocol", describe(url))
	case len(url) > 1024:
		c.refuse(at, "has %d bytes: give at most 1024", len(url))
	}
	stage.Output.Egress = url
}
