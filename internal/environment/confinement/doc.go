// Package confinement runs the programs of builds of environments: installers,
// which run code of whoever asked for the environment.
//
// Vocabulary:
//
//   - A program runs under a shim, as a container of a job does (package
//     process): all that it started is gone when [Confinement.Run] returns, and
//     ends with the muster that started it.
//   - Confined programs run in namespaces of their own, as a user of their own,
//     without rights, and see the machine's files for reading. They write to the
//     folders of the build alone. They do not see Muster's own folder, the home
//     folder of the user who runs Muster, and the machine's temporary folders.
//   - Where the machine does not let Muster confine them, programs run as all of
//     the plain tier do: as the user who runs Muster.
//
// It must not know what an environment is, nor what the programs are for.
package confinement
