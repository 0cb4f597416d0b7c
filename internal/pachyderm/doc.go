// Package pachyderm owns the door for Pachyderm's pipeline specifications: what
// one says becomes a [v1alpha1.Pipeline], field by field, or is refused by name
// with what to do instead. docs/pachyderm.md is its table for people.
//
// A specification is what `pachctl create pipeline -f` of Pachyderm 2 takes: the
// message CreatePipelineRequest of its pps.proto, as JSON or YAML, in snake_case
// or camelCase. Each becomes a Pipeline of one stage, whose output is a dataset
// of the pipeline's name, because that is the name by which other specifications
// read it.
//
// A field is honoured (read by the code here), refused (its value cannot be had,
// and the work would be another one without it) or noted (the work is the same
// without it; said so). A value that is the default of its type, such as false or
// "", is as if the field were not there, as everywhere in that format. Nothing is
// passed over in silence: what no shape in shapes.go names is refused.
//
// The package must not know who asks, where the result goes or whether a dataset
// exists: it reads bytes and returns objects.
package pachyderm
