// Package v1 holds the kinds TFJob and PyTorchJob of the group kubeflow.org,
// version v1, as far as Muster reads and writes them: what people's manifests
// already say. The API is Kubeflow's; these types are our own, so that nothing
// of its operator has to be linked. It holds no behaviour.
//
// Fields that are not here are kept by our CustomResourceDefinitions rather
// than dropped in silence, so that the controller can name them and refuse.
//
// +kubebuilder:object:generate=true
// +groupName=kubeflow.org
package v1
