# SPDX-License-Identifier: Apache-2.0
# find_package(Neuron [COMPONENTS nrt ccom]): the imported targets Neuron::nrt and Neuron::ccom. Without components both are
# looked for and Neuron::nrt is needed. The place is told by this file's own, so an installation may be moved.
include(${CMAKE_CURRENT_LIST_DIR}/NeuronPaths.cmake)

function(neuron_import name soname)
  if(TARGET Neuron::${name} OR NOT EXISTS ${NEURON_LIBRARIES_FOLDER}/lib${name}.so)
    return()
  endif()
  add_library(Neuron::${name} SHARED IMPORTED)
  set_target_properties(Neuron::${name} PROPERTIES IMPORTED_LOCATION ${NEURON_LIBRARIES_FOLDER}/lib${name}.so
    IMPORTED_SONAME ${soname} INTERFACE_INCLUDE_DIRECTORIES ${NEURON_INCLUDE_FOLDER})
endfunction()
neuron_import(nrt libnrt.so.1)
neuron_import(ccom libccom.so.1)
if(TARGET Neuron::ccom AND TARGET Neuron::nrt)
  set_target_properties(Neuron::ccom PROPERTIES INTERFACE_LINK_LIBRARIES Neuron::nrt)
endif()

foreach(component nrt ${Neuron_FIND_COMPONENTS})
  if(TARGET Neuron::${component})
    set(Neuron_${component}_FOUND TRUE)
  elseif(component STREQUAL nrt OR Neuron_FIND_REQUIRED_${component})
    set(Neuron_FOUND FALSE)
    set(Neuron_NOT_FOUND_MESSAGE "${NEURON_LIBRARIES_FOLDER} holds no lib${component}.so: install lib${component}-dev")
  endif()
endforeach()
