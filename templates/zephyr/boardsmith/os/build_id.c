// SPDX-License-Identifier: Apache-2.0
//
// The id of this build. boardsmith writes build/build_id.inc before it builds; in a build by hand it is 0.
#include <stdint.h>

#include "about.h"

#define BYTE(value) (value),

const uint8_t boardsmith_build_id[BUILD_ID_BYTES] = {
#include "build_id.inc"
};
