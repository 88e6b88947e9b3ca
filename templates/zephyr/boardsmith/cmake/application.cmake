# SPDX-License-Identifier: Apache-2.0
#
# What an application includes before it finds Zephyr: the module boardsmith, and the settings of the board file (field
# settings) and of local/.

# A Zephyr that the module was not made for ends here, not in an error that only Zephyr's developers understand.
if(DEFINED ENV{ZEPHYR_BASE} AND EXISTS "$ENV{ZEPHYR_BASE}/VERSION")
  file(READ "$ENV{ZEPHYR_BASE}/VERSION" version)
  if(NOT version MATCHES "VERSION_MAJOR *= *([0-9]+).*VERSION_MINOR *= *([0-9]+)")
    message(FATAL_ERROR "boardsmith: $ENV{ZEPHYR_BASE}/VERSION has no version number")
  endif()
  set(zephyr "${CMAKE_MATCH_1}.${CMAKE_MATCH_2}")
  if(zephyr VERSION_LESS 2.7)
    message(FATAL_ERROR "boardsmith: Zephyr ${zephyr} in $ENV{ZEPHYR_BASE} is too old: use 2.7 or later")
  endif()
  set(unquoted "[] ,'\"$();#%&<>[]")  # before 3.6, Zephyr does not quote paths
  if(zephyr VERSION_LESS 3.6 AND "${CMAKE_BINARY_DIR}" MATCHES "${unquoted}")
    get_filename_component(above "${CMAKE_SOURCE_DIR}" DIRECTORY)
    if(NOT "${above}" MATCHES "${unquoted}")
      set(above "${CMAKE_BINARY_DIR}")
    endif()
    message(FATAL_ERROR "boardsmith: Zephyr ${zephyr} cannot build in ${above}: the path has a space or another "
      "character that it does not quote. mage build builds in the cache, whose folder BOARDSMITH_HOME or "
      "XDG_CACHE_HOME chooses")
  endif()
endif()

# The settings of the board file, then the user's. BOARDSMITH_LINK chooses another link, whose settings these may
# change. Zephyr before 3.4 has only one list of overlays, which replaces the application's own.
foreach(kind cmake conf overlay)
  file(GLOB_RECURSE ${kind} CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/board/*.${kind}")
  if(EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/local/local.${kind}")
    list(APPEND ${kind} "${CMAKE_CURRENT_SOURCE_DIR}/local/local.${kind}")
  endif()
endforeach()
foreach(file IN LISTS cmake)
  include("${file}")
endforeach()
set(overlays ${overlay})
if(BOARDSMITH_LINK)
  set(link "${CMAKE_CURRENT_SOURCE_DIR}/links/${BOARDSMITH_LINK}")
  if(NOT EXISTS "${link}.conf")
    message(FATAL_ERROR "boardsmith: BOARDSMITH_LINK is ${BOARDSMITH_LINK}: it is rtt, usb, or not set for the UART")
  endif()
  list(PREPEND conf "${link}.conf")
  if(EXISTS "${link}.overlay")
    list(PREPEND overlays "${link}.overlay")
  endif()
endif()
if(NOT DEFINED zephyr OR NOT zephyr VERSION_LESS 3.4)
  list(APPEND EXTRA_CONF_FILE ${conf})
  list(APPEND EXTRA_DTC_OVERLAY_FILE ${overlays})
else()
  list(APPEND OVERLAY_CONFIG ${conf})
  if(overlays)
    foreach(own "boards/${BOARD}.overlay" "${BOARD}.overlay" app.overlay)
      if(EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/${own}")
        list(APPEND DTC_OVERLAY_FILE "${CMAKE_CURRENT_SOURCE_DIR}/${own}")
        break()
      endif()
    endforeach()
    list(APPEND DTC_OVERLAY_FILE ${overlays})
  endif()
endif()
set(BOARDSMITH_SETTINGS ON)  # are read

# Zephyr names a module's linker scripts relative to its own folder, which a symbolic link must not name then.
if(DEFINED ENV{ZEPHYR_BASE})
  get_filename_component(zephyr_base "$ENV{ZEPHYR_BASE}" REALPATH)
  set(ENV{ZEPHYR_BASE} "${zephyr_base}")
endif()
list(APPEND ZEPHYR_EXTRA_MODULES "${CMAKE_CURRENT_SOURCE_DIR}/boardsmith")
