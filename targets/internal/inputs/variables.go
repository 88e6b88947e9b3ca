// This file groups the variables that several targets read.

package inputs

import "time"

// OnBoard names a board, and which of its devices.
type OnBoard struct {
	Board  string `var:"BOARD"`
	Target string `var:"TARGET"`
	Device string `var:"DEVICE"`
}

// OfModel names the project of a board and a model.
type OfModel struct {
	OnBoard
	Model     string `var:"MODEL"`
	ModelName string `var:"MODEL_NAME"`
	App       string `var:"APP" of:"rpc standalone library"`
	Project   string `var:"PROJECT"`
}

// OfFirmware are what firmware is made of beside the model.
type OfFirmware struct {
	Options   []string `var:"OPTIONS" between:" "`
	Place     string   `var:"PLACE"`
	Libraries []string `var:"LIBRARIES"`
	Template  string   `var:"TEMPLATE"`
}

// OfProject are those of all targets that work on a project.
type OfProject struct {
	OfModel
	OfFirmware
}

// Dry lists what would be done; Console.DryRun has it.
type Dry struct {
	DryRun bool `var:"DRYRUN"`
}

// OfBuild are those of targets that build firmware, or use what was built.
type OfBuild struct {
	OfProject
	Dry
	FixedInput string `var:"FIXED_INPUT"` // .npz with the inputs that are compiled into standalone firmware
}

// OnDevice are those of targets that use a device.
type OnDevice struct {
	Programmer string        `var:"PROGRAMMER"`
	Wait       time.Duration `var:"WAIT"` // for a device that another process uses
	Force      bool          `var:"FORCE"`
}

// OfCall are those of targets that call functions on a device.
type OfCall struct {
	OnDevice
	Timeout time.Duration `var:"TIMEOUT"` // of one call, or what the target limits; 0: the user names none
}

// OfImage are those of targets that use an image on a device.
type OfImage struct {
	OfBuild
	OfCall
	Image string `var:"IMAGE"`
}

// OfInput are a model's inputs.
type OfInput struct {
	Input string `var:"INPUT"`
	Seed  uint64 `var:"SEED" else:" is not a number"`
}

// OfSet says how the outputs of a set of samples are compared.
type OfSet struct {
	Labels   string  `var:"LABELS"`
	Compare  string  `var:"COMPARE"`
	Accuracy float64 `var:"ACCURACY" range:"1e-9 100" else:" is not a number of per cent, above 0 to 100"`
}

// Repeated is the number of time samples.
type Repeated struct {
	Repeat int `var:"REPEAT" default:"10" range:"1 1000000" else:" is not a number of runs from 1 to 1000000"`
}

// Variables are those that targets of a project share. Of a target that does not read all, the others are not set.
type Variables struct {
	OfImage
	Repeated
	OfInput
	OfSet
	Params  string `var:"PARAMS"`
	Load    string `var:"LOAD" of:"flash ram"`
	Trace   string `var:"TRACE"`
	Expect  string `var:"EXPECT"`
	Output  string `var:"OUTPUT"`
	Product string `var:"PRODUCT"`
	Version string `var:"VERSION"`
	Fresh   bool   `var:"FRESH"`
}
