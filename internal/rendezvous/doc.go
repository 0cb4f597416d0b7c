// Package rendezvous turns the table of a gang's members into the environment
// variables by which a framework's processes find one another.
//
// Vocabulary: a member is one process group with an address of its own; a peer
// is a member that the framework counts; the master is the peer that the
// others connect to first.
//
// The variables follow the frameworks' own documentation:
//
//   - TensorFlow: TF_CONFIG as described in "Multi-worker training with Keras"
//     and "Parameter server training": a cluster of chief, worker and ps, and
//     the member's own task. An evaluator reads the cluster without being part
//     of it. Roles that tf.distribute does not know are not in the cluster,
//     because its validation refuses them.
//   - PyTorch: the variables of the env:// initialisation in
//     "torch.distributed" (MASTER_ADDR, MASTER_PORT, WORLD_SIZE, RANK), those
//     that "torchrun (Elastic Launch)" gives its workers, and the PET_
//     variables from which torchrun takes the defaults of its flags.
//
// What grows with the gang, the host:port lists and TensorFlow's cluster, is a
// plain value, or a reference to one ConfigMap of the gang where copies would be
// large. In both cases $(PS_HOSTS) in a later variable, in command or in args is
// expanded by Kubernetes' own rules, provided that these variables come first.
//
// The package knows no pods and no nodes: who calls it decides the addresses.
package rendezvous
