# SPDX-License-Identifier: Apache-2.0
#
# boardsmith's part of a firmware that make builds: its server, the runtime, the model and the project's libraries.
# Include this file after CC and CFLAGS are set, the flags for the processor and for debugging, and after the first
# target. Link BOARDSMITH_OBJ and -lm with BOARDSMITH_LDFLAGS. Your main calls boardsmith_main(), which returns when the
# host closes the link. Set BOARDSMITH_BUILD before it if elf and map of template.json are in another folder than build.

include crt_config/operators.mk
-include crt_config/libraries.mk  # of a project without libraries there is none
BOARDSMITH_BUILD ?= build

# The image does not depend on the folder. The compiler must use the folder's name that -ffile-prefix-map removes.
export PWD := $(CURDIR)
CFLAGS += -ffile-prefix-map='$(CURDIR)'=. -fdebug-prefix-map='$(CURDIR)'=.
# Nor on the day: with the user's SOURCE_DATE_EPOCH, the compiler has that time. Of your sources, it warns.
BOARDSMITH_NO_DATE := -Wno-builtin-macro-redefined $(foreach macro,$(if $(SOURCE_DATE_EPOCH),,DATE TIME) TIMESTAMP,\
	-D'__$(macro)__=_Pragma("GCC error \"__$(macro)__ differs in each build\"")')
CFLAGS += $(if $(SOURCE_DATE_EPOCH),,-Wdate-time)
BOARDSMITH_LDFLAGS := -Wl,--build-id=md5 -Wl,-Map=$(BOARDSMITH_BUILD)/firmware.map

BOARDSMITH_INCLUDES := -I. -Icrt_config -Icrt/include -Icrt/src -Iboardsmith $(LIBRARY_INCLUDES)
BOARDSMITH_SERVER := $(patsubst %.c,$(BOARDSMITH_BUILD)/%.o,$(wildcard boardsmith/*.c crt/src/*/*.c))
BOARDSMITH_MODEL := $(patsubst %.c,$(BOARDSMITH_BUILD)/%.o,$(wildcard model/codegen/host/src/*.c))
BOARDSMITH_LIBRARIES := $(LIBRARIES:%=$(BOARDSMITH_BUILD)/libraries/%.a)
BOARDSMITH_OBJ := $(BOARDSMITH_SERVER) $(BOARDSMITH_MODEL) $(wildcard model/codegen/host/lib/*.o) \
	$(BOARDSMITH_LIBRARIES)
BOARDSMITH_HEADERS := $(wildcard boardsmith/*.h crt_config/*.h crt/src/*/*.h \
	$(patsubst %,crt/include/%.h,*/* */*/* */*/*/*))

$(BOARDSMITH_SERVER): $(BOARDSMITH_BUILD)/%.o: %.c Makefile $(BOARDSMITH_HEADERS)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -std=c11 -Os $(BOARDSMITH_INCLUDES) $(if $(filter boardsmith/main.c,$<),-Dmain=boardsmith_main) \
		-c -o $@ $<

# Generated code: newer compilers must accept it too.
$(BOARDSMITH_MODEL): $(BOARDSMITH_BUILD)/%.o: %.c Makefile crt_config/operators.mk
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -std=gnu11 -$(OPERATOR_OPT) $(or $(OPERATOR_FLAGS_$(*F)),$(OPERATOR_FLAGS)) -w \
		-Wno-error=incompatible-pointer-types -Wno-error=int-conversion $(BOARDSMITH_NO_DATE) \
		-Icrt_config -Icrt/include -Imodel/codegen/host/include $(LIBRARY_INCLUDES) -c -o $@ $<

# A library's archive, with which it is linked, and its objects.
define BOARDSMITH_LIBRARY
$(BOARDSMITH_BUILD)/libraries/$(1).a: $(LIBRARY_SOURCES_$(1):%=$(BOARDSMITH_BUILD)/%.o)
	@mkdir -p $$(@D) && rm -f $$@
	$(AR) rcsD $$@ $$^
$(LIBRARY_SOURCES_$(1):%=$(BOARDSMITH_BUILD)/%.o): BOARDSMITH_FLAGS := $(LIBRARY_FLAGS_$(1))
-include $(LIBRARY_SOURCES_$(1):%=$(BOARDSMITH_BUILD)/%.d)
endef
$(foreach name,$(LIBRARIES),$(eval $(call BOARDSMITH_LIBRARY,$(name))))

BOARDSMITH_OF_LIBRARY = $(CFLAGS) -O2 -w $(BOARDSMITH_NO_DATE) -Icrt_config -Icrt/include $(LIBRARY_INCLUDES) -MMD -MP
$(BOARDSMITH_BUILD)/libraries/%.c.o: libraries/%.c Makefile crt_config/libraries.mk
	@mkdir -p $(@D)
	$(CC) $(BOARDSMITH_OF_LIBRARY) -std=gnu11 $(BOARDSMITH_FLAGS) -c -o $@ $<
$(BOARDSMITH_BUILD)/libraries/%.cpp.o: libraries/%.cpp Makefile crt_config/libraries.mk
	@mkdir -p $(@D)
	$(CXX) $(BOARDSMITH_OF_LIBRARY) -std=gnu++17 -fno-exceptions -fno-rtti -fno-threadsafe-statics \
		-fno-use-cxa-atexit $(BOARDSMITH_FLAGS) -c -o $@ $<
$(BOARDSMITH_BUILD)/libraries/%.S.o: libraries/%.S Makefile crt_config/libraries.mk
	@mkdir -p $(@D)
	$(CC) $(BOARDSMITH_OF_LIBRARY) $(BOARDSMITH_FLAGS) -c -o $@ $<
